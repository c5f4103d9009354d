"""Exporters: from a saved conversation to a text in another format, by the name of the format. Built-in ones, then those of plugins."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from relaylite.errors import UsageError, did_you_mean
from relaylite.plugins.entry_points import EXPORTERS, Notify, load_plugins, package_of
from relaylite.plugins.fences import with_closed_fence
from relaylite.terminal_text import fit_for_terminal

Exporter = Callable[[Mapping[str, Any]], str]


def as_markdown(conversation: Mapping[str, Any]) -> str:
    """The messages and answers as a Markdown document."""
    lines = [f"# Conversation with {fit_for_terminal(conversation['model'])}", "", f"Policy: {conversation['policy']}", ""]
    for number, each in enumerate(conversation["rounds"], 1):
        lines += [f"## Message {number}", "", *(f"> {line}" for line in fit_for_terminal(each["task"]).splitlines()), ""]
        for turn in each["turns"]:
            note = " (edited)" if turn["was_edited"] else ""
            lines += [f"### {turn['agent']}{note}", "", with_closed_fence(fit_for_terminal(turn["text"]).rstrip()), ""]
    return "\n".join(lines)


def as_json(conversation: Mapping[str, Any]) -> str:
    """The conversation as it is saved, indented."""
    return json.dumps(conversation, ensure_ascii=False, indent=1) + "\n"


BUILT_IN: dict[str, Exporter] = {"markdown": as_markdown, "json": as_json}


def load_exporters(notify: Notify) -> dict[str, Exporter]:
    """All exporters by the name of their format. A plugin does not replace one of the same name."""
    known = dict(BUILT_IN)
    for point, exporter in load_plugins(EXPORTERS, _exporter_from, notify):
        if point.name in known:
            notify(f"plugin {point.name} of {package_of(point)} is left out: there is another exporter of this name")
        else:
            known[point.name] = exporter
    return known


def export(conversation: Mapping[str, Any], name: str, known: Mapping[str, Exporter]) -> str:
    """The conversation in the format `name`. Raises UsageError in one line: for an unknown format, or if the export fails."""
    if name not in known:
        raise UsageError(f"unknown format {name!r}; {did_you_mean(name, known, 'known: ' + ', '.join(known))}")
    try:
        text = known[name](conversation)
    except Exception as error:  # a damaged conversation, or a defect of another package
        raise UsageError(f"this conversation cannot be exported as {name}: {type(error).__name__}: {error}") from error
    if not isinstance(text, str):
        raise UsageError(f"this conversation cannot be exported as {name}: the exporter gave {type(text).__name__}, not a text")
    return text


def _exporter_from(found: object) -> Exporter:
    if not callable(found):
        raise UsageError(f"an exporter is a function that takes a conversation and returns a text, not {type(found).__name__}")
    return found
