"""`Agent`: a name, instructions, whose text it reads, and how it samples. Built-in roles, those of plugins, and the user's own from TOML.

Values only: the chain decides who answers when, and what an agent gets to see in a prompt.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from relaylite import paths
from relaylite.errors import UsageError, did_you_mean
from relaylite.plugins.entry_points import AGENTS, Notify, load_plugins, package_of, warn
from relaylite.sampling import Sampling
from relaylite.settings.toml_file import read_toml

Reads = Literal["task", "previous", "all"]
READS: tuple[Reads, ...] = get_args(Reads)
COLORS = ("red", "green", "yellow", "blue", "magenta", "cyan", "white")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class Agent:
    """One role in a chain.

    `reads`: "task" (the task alone), "previous" (the task and the answer before it) or "all" (the task and all answers before it).
    `sampling`: values that go before the chain's, by their names in `Sampling`. `color`: a terminal colour name or `#rrggbb`; "" lets
    the display choose. Raises UsageError, in one line, if a value is not valid.
    """

    name: str
    instructions: str
    reads: Reads = "all"
    sampling: Mapping[str, Any] = field(default_factory=dict)
    color: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"agent name {self.name!r}: use 1 to 32 letters, digits, - or _")
        if not self.instructions.strip():
            raise UsageError(f"agent {self.name} has no instructions; give it some")
        if self.reads not in READS:
            raise UsageError(f"agent {self.name} reads {self.reads!r}; it can read {', '.join(READS)}")
        if self.color not in ("", *COLORS) and not re.fullmatch("#[0-9a-fA-F]{6}", self.color):
            raise UsageError(f"agent {self.name} has the color {self.color!r}; use {', '.join(COLORS)} or #rrggbb")
        try:
            Sampling().merged(self.sampling)
        except UsageError as error:
            raise UsageError(f"agent {self.name}: {error}") from error

    def with_sampling(self, overrides: Mapping[str, Any]) -> Agent:
        """The same agent, with these sampling values replaced."""
        return dataclasses.replace(self, sampling={**self.sampling, **overrides}) if overrides else self


BUILT_IN: tuple[Agent, ...] = (
    Agent(
        "plan",
        "You are the planner. Read the task and write a short numbered plan of two to six steps that solves it. "
        "Name inputs, outputs and special cases. Do not carry out the plan and do not write the final answer.",
        color="cyan",
    ),
    Agent(
        "code",
        "You are the programmer. Follow the plan if there is one and write complete, working code that solves the task, "
        "in one code block, in the language that the task asks for, or Python. Handle the special cases. "
        "After the code, explain it in at most three sentences.",
        color="green",
    ),
    Agent(
        "review",
        "You are the reviewer. Check whether the work above solves the task. List each real mistake with its correction. "
        "If something must change, give the corrected version in full. If all is well, say so in one sentence.",
        color="magenta",
    ),
    Agent(
        "solve",
        "You solve the task. Follow the plan if there is one. Work step by step, show each calculation on its own line, "
        "and end with one line: Answer: followed by the answer alone.",
        color="green",
    ),
    Agent(
        "check",
        "You check the solution above. Go through its steps again and recompute every calculation yourself. "
        "Correct what is wrong, and end with one line: Answer: followed by the right answer alone.",
        color="magenta",
    ),
    Agent(
        "test",
        "You write tests for the code above: the usual case, the limits, and wrong input. "
        "Use plain assert statements or the language's usual test library, in one code block that can be run as it is.",
        color="yellow",
    ),
    Agent(
        "explain",
        "You explain the work above to someone who is new to the subject. Use plain words and short sentences, "
        "say why each part is there, and give one small example.",
        color="blue",
    ),
    Agent(
        "write",
        "You are the writer. Follow the outline or plan if there is one and write the full text that the task asks for. "
        "Write the text only, without remarks about it.",
        color="green",
    ),
    Agent(
        "edit",
        "You are the editor. Improve the text above: correct mistakes, cut what is not needed, make sentences clear. "
        "Keep its meaning, language and form. Write the improved text only.",
        reads="previous",
        color="magenta",
    ),
    Agent(
        "summarize",
        "You summarize what was written above, or the text in the task if nothing was. "
        "Give the main points in at most five short sentences. Add nothing that is not in the text.",
        color="blue",
    ),
    Agent(
        "translate",
        "You are the translator. Translate the text above, or the text in the task if there is none above, into the language "
        "that the task names, or into English if it names none. Keep names, numbers and form. Write the translation only.",
        reads="previous",
        color="cyan",
    ),
    Agent(
        "critic",
        "You look for weaknesses. Name the three most serious problems of the work above, the worst first: "
        "say what goes wrong, in which case, and how to mend it.",
        color="red",
    ),
)


def load_agents(extra_file: Path | None = None, notify: Notify = warn) -> dict[str, Agent]:
    """All known agents by name: built-in ones, those of plugins, then those of the user's agents.toml, then those of `extra_file`.

    A table named like a known agent changes only what it states; a plugin changes no agent. `notify` gets one line for each plugin that
    is left out. Raises UsageError in one line that names the file.
    """
    known = {agent.name: agent for agent in BUILT_IN}
    for point, agents in load_plugins(AGENTS, _agents_from, notify):
        for agent in agents:
            if known.setdefault(agent.name, agent) is not agent:
                notify(f"agent {agent.name} of {package_of(point)} is left out: there is another agent of this name")
    known |= read_agents(paths.agents_file(), known, may_be_missing=True)
    if extra_file is not None:
        known |= read_agents(extra_file, known)
    return known


def read_agents(path: Path, known: Mapping[str, Agent], *, may_be_missing: bool = False) -> dict[str, Agent]:
    """The agents of one TOML file, a table each; what a table leaves out comes from the agent of that name in `known`."""
    tables = read_toml(path, f"the agents file {path}", may_be_missing=may_be_missing)
    return {name: _agent_of(path, name, table, known.get(name)) for name, table in tables.items()}


def _agents_from(found: object) -> list[Agent]:
    """What a plugin's entry point names: an `Agent`, or several in a list or tuple."""
    named = list(found) if isinstance(found, list | tuple) else [found]
    agents = [each for each in named if isinstance(each, Agent)]
    if len(agents) < len(named):
        wrong = next(each for each in named if not isinstance(each, Agent))
        raise UsageError(f"it should name a relaylite.Agent or a list of them, not {type(wrong).__name__}")
    return agents


def _agent_of(path: Path, name: str, table: object, base: Agent | None) -> Agent:
    allowed = [f.name for f in dataclasses.fields(Agent) if f.name != "name"]
    if not isinstance(table, dict):
        raise UsageError(f'{path}: {name!r} stands outside a table; write [name] and below it instructions = "…"')
    for key, value in table.items():
        if key not in allowed:
            raise UsageError(f"{path}: [{name}] has an unknown key {key!r}; known: {', '.join(allowed)}")
        if not isinstance(value, dict if key == "sampling" else str):
            raise UsageError(f"{path}: [{name}] {key} must be {'a table' if key == 'sampling' else 'a text'}")
    if "instructions" not in table and base is None:
        raise UsageError(f"{path}: [{name}] has no instructions; give it some")
    try:
        return dataclasses.replace(base, **table) if base else Agent(name, **table)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def choose_agents(names: Iterable[str | Agent], known: Mapping[str, Agent] | None = None) -> tuple[Agent, ...]:
    """The agents of a chain, in order; a name may stand more than once.

    `known` defaults to `load_agents()`. Raises UsageError for an unknown name, with the closest known ones, and for an empty chain.
    """
    names = tuple(names)
    if known is None:
        known = {} if names and all(isinstance(name, Agent) for name in names) else load_agents()
    chosen = tuple(name if isinstance(name, Agent) else _named(name, known) for name in names)
    if not chosen:
        raise UsageError(f"a chain needs at least one agent; known: {', '.join(known)}")
    return chosen


def _named(name: str, known: Mapping[str, Agent]) -> Agent:
    """By its exact name, else by the only one that differs in case alone."""
    folded = [each for each in known if each.casefold() == name.casefold()]
    if name in known or len(folded) == 1:
        return known[name if name in known else folded[0]]
    raise UsageError(f"unknown agent {name!r}; {did_you_mean(name, known, 'known: ' + ', '.join(known))}")
