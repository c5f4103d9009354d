"""The sampling values that the app lets one change, for one agent or for all. Values only; the dialogs show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from relaylite.chain.agents import Agent
from relaylite.errors import UsageError
from relaylite.sampling import Sampling

LABELS = {"temperature": "temperature", "max_tokens": "max tokens", "seed": "seed"}  # by their names in `Sampling`

Values = Mapping[str, Any]


def read(name: str, text: str) -> float | int | None:
    """The value that was typed; None for an empty text. Raises UsageError in one line for what cannot be one."""
    if not text.strip():
        return None
    try:
        value: float | int = float(text) if name == "temperature" else int(text)
    except ValueError as error:
        kind = "a number" if name == "temperature" else "a whole number"
        raise UsageError(f"{LABELS[name]} must be {kind}, not {text.strip()!r}") from error
    if name == "max_tokens" and value == 0:
        raise UsageError("max tokens must be at least 1, or -1 for as many as fit")
    Sampling().merged({name: value})
    return value


def text_of(value: float | int | None) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def otherwise(in_force: Values) -> dict[str, str]:
    """What holds for an agent without values of its own, as texts."""
    values = {**Sampling().values(), **{name: value for name, value in in_force.items() if value is not None}}
    return {name: text_of(values[name]) for name in LABELS}


def of_all(agents: Sequence[Agent], in_force: Values) -> dict[str, Any]:
    """The values that all these agents have: None where nothing says one. One that differs among them is left out."""
    each = {name: [agent.sampling.get(name, in_force.get(name)) for agent in agents] for name in LABELS}
    return {name: values[0] for name, values in each.items() if all(value == values[0] for value in values)}


def differing(agents: Sequence[Agent], in_force: Values) -> list[str]:
    """A line for each value that is not the same for all."""
    names = [name for name in LABELS if name not in of_all(agents, in_force)]
    return [f"{LABELS[name]}: " + ", ".join(f"{agent.name} {_shown(name, agent, in_force)}" for agent in agents) for name in names]


def own(agents: Sequence[Agent]) -> list[str]:
    """A line for each agent that has values of its own."""
    return [
        f"{agent.name}: " + ", ".join(f"{LABELS.get(name, name)} {value}" for name, value in agent.sampling.items())
        for agent in agents
        if agent.sampling
    ]


def choose_for_all(agents: Sequence[Agent], chosen: Values, changes: Values) -> tuple[tuple[Agent, ...], dict[str, Any]]:
    """`changes` hold for all agents: none keeps a value of its own. The agents, and what is chosen for the conversation then."""
    others = ({name: value for name, value in agent.sampling.items() if name not in changes} for agent in agents)
    return tuple(replace(agent, sampling=rest) for agent, rest in zip(agents, others, strict=True)), {**chosen, **changes}


def choose_for_one(agent: Agent, values: Values) -> dict[str, Any]:
    """The agent's own values with `values` in their place; a None is one that it has no longer."""
    return {name: value for name, value in {**agent.sampling, **values}.items() if value is not None}


def _shown(name: str, agent: Agent, in_force: Values) -> str:
    return text_of(agent.sampling.get(name, in_force.get(name))) or "unset"
