"""A few episodes of each fuzzer. `python tests/fuzz --minutes 10` does thousands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fuzz.episodes import FUZZERS

N_EPISODES = {"cells": 6, "plans": 25, "turns": 5, "conversations": 3, "headers": 8, "screens": 3}


def test_each_fuzzer_has_its_share() -> None:
    assert set(N_EPISODES) == set(FUZZERS)


@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, n in N_EPISODES.items() for seed in range(n)])
def test_nothing_is_found(name: str, seed: int, tmp_path: Path) -> None:
    FUZZERS[name](np.random.default_rng(seed), tmp_path)
