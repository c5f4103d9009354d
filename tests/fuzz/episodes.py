"""The fuzzers by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from fuzz import cells, conversations, headers, plans, screens, turns

Episode = Callable[[np.random.Generator, Path], None]  # the folder is the episode's own

FUZZERS: dict[str, Episode] = {
    "cells": cells.run,
    "plans": plans.run,
    "turns": turns.run,
    "conversations": conversations.run,
    "headers": headers.run,
    "screens": screens.run,
}
