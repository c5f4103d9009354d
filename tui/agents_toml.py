"""Agents as tables of an agents.toml: written into what stands there, whose other tables and comments stay as they are."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from typing import Any

from relaylite.chain.agents import Agent
from relaylite.errors import UsageError

_HEADER = re.compile(r"""\s*\[\s*["']?([\w-]+)["']?\s*(?:\.[^\]]*)?\]\s*(?:#.*)?""")
_QUOTES = re.compile(r'''"""|\'\'\'|"(?:\\.|[^"\\])*"|'[^']*'|#.*''')
_ENDS = {'"""': re.compile(r'(?:\\.|[^\\])*?"{3,5}'), "'''": re.compile(r".*?'{3,5}")}


def with_agents(text: str, agents: Iterable[Agent]) -> str:
    """`text` with a table for each agent, in place of the one that it has by now, or at the end.

    Raises UsageError if two different agents have one name, or if `text` says an agent in a way that cannot be replaced safely.
    """
    named: dict[str, Agent] = {}
    for agent in agents:
        if named.setdefault(agent.name, agent) != agent:
            raise UsageError(f"two different agents are called {agent.name}; give one another name")
    new = text
    for agent in named.values():
        new = _with_table(new, agent)
    try:
        wanted = {**tomllib.loads(text), **{name: tomllib.loads(table_of(agent))[name] for name, agent in named.items()}}
        is_right = tomllib.loads(new) == wanted
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise UsageError(f"these agents cannot be written into the file as it is: {', '.join(named)}; change it by hand")
    return new


def table_of(agent: Agent) -> str:
    """One table that says everything of the agent, so that nothing of an agent of the same name is left."""
    sampling = ", ".join(f"{name} = {_value(value)}" for name, value in agent.sampling.items())
    return (
        f"[{agent.name}]\ninstructions = {_text(agent.instructions)}\nreads = {_value(agent.reads)}\n"
        f"sampling = {{ {sampling} }}\ncolor = {_value(agent.color)}\n"
    )


def _with_table(text: str, agent: Agent) -> str:
    before: list[str] = []
    after: list[str] = []
    comments: list[str] = []  # in the table that is replaced
    inside = found = False
    quote = ""
    for line in text.splitlines(keepends=True):
        starts_in_text, quote = bool(quote), _open_quote(line, quote)
        header = None if starts_in_text else _HEADER.fullmatch(line.rstrip())
        if header is not None:
            inside = header[1] == agent.name
            found = found or inside
        if not inside:
            (after if found else before).append(line)
        elif not starts_in_text and (line.lstrip().startswith("#") or not line.strip()):
            comments.append(line)
    if not found:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}{table_of(agent)}"
    blank = "" if not after or (comments and not comments[-1].strip()) else "\n"
    return "".join((*before, table_of(agent), *comments, blank, *after))


def _open_quote(line: str, quote: str) -> str:
    """Which text of several lines goes on after `line`, if `quote` goes on before it; "" for none."""
    place = 0
    while True:
        match = (_ENDS[quote].match if quote else _QUOTES.search)(line, place)
        if match is None:
            return quote
        place = match.end()
        quote = match[0] if not quote and match[0] in _ENDS else ""


def _text(text: str) -> str:
    lines = [_value(line)[1:-1] for line in text.split("\n")]
    return _value(text) if len(lines) == 1 else '"""\n' + "\n".join(lines) + '"""'


def _value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
