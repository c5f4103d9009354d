"""How each role samples unless it is told otherwise: values that keep answers from repeating themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relaylite.chain.agents import Agent
from relaylite.sampling import Sampling

# DRY looks back over about one answer. Names, numbers and phrases may be said again; a line or a sentence only if nothing else fits.
STEADY: Mapping[str, Any] = {"dry_multiplier": 0.8, "dry_allowed_length": 6, "dry_penalty_last_n": 256, "ends_loops": True}

# Code says the same half line again and again, and rightly so.
OF_ROLES: Mapping[str, Mapping[str, Any]] = {"code": {**STEADY, "dry_allowed_length": 12}}


def in_force(told: Mapping[str, Any], chosen: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values that were told, with those that were chosen since in their place; a None that was chosen leaves one untold."""
    return {name: value for name, value in {**told, **chosen}.items() if value is not None}


def check_chosen(chosen: Mapping[str, Any]) -> None:
    """Raises UsageError in one line for a name or a value that `Sampling` refuses."""
    Sampling().merged({name: getattr(Sampling(), name, None) if value is None else value for name, value in chosen.items()})


def sampling_of(agent: Agent, told: Mapping[str, Any]) -> Sampling:
    """What `told` and, before it, the agent itself say; for all else the values of its role, by its name.

    Temperature 0, if told, is plain greedy: nothing of the role is added then.
    """
    told = {**told, **agent.sampling}
    suggested = {} if told.get("temperature") == 0 else OF_ROLES.get(agent.name, STEADY)
    return Sampling().merged({**suggested, **told})
