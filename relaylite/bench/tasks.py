"""`Task`: what a chain is asked, and how an answer is known to be right. Read from the files of public task sets, told by content."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from relaylite.errors import UsageError
from relaylite.paths import read_whole

TaskKind = Literal["gsm8k", "mmlu", "humaneval", "plain"]

AGENTS: dict[TaskKind, tuple[str, ...]] = {
    "gsm8k": ("plan", "solve", "check"),
    "mmlu": ("plan", "solve", "check"),
    "humaneval": ("plan", "code", "review"),
    "plain": ("plan", "code", "review"),
}

_LETTERS = "ABCD"
_MMLU_ENDING = "\n\nThe answer is one letter: A, B, C or D."
_HUMANEVAL_TEXT = "Complete this Python function and give it in full.\n\n```python\n{prompt}```"


@dataclass(frozen=True, slots=True)
class Program:
    """How a HumanEval answer is tried: `prompt` is the code that the task gave, `test` defines `check`, called with `entry_point`."""

    prompt: str
    test: str
    entry_point: str


@dataclass(frozen=True, slots=True)
class Task:
    """`expected`: the right number or letter, "" if the task has none of these."""

    kind: TaskKind
    text: str
    expected: str = ""
    program: Program | None = None

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the built-in agents that work on tasks of this kind."""
        return AGENTS[self.kind]

    def is_graded(self, *, execute: bool) -> bool:
        """Whether an answer can be judged; programs only where code may be executed."""
        return bool(self.expected) or (execute and self.program is not None)


def read_tasks(path: Path, n: int | None = None) -> list[Task]:
    """The first `n` tasks of a file (all if None): JSON lines as GSM8K, HumanEval or `{"task": …}`, or CSV as MMLU.

    Raises UsageError in one line that names the file, and the line where one is at fault.
    """
    try:
        text = read_whole(path, may_be_pipe=True).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read the tasks {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text") from error
    tasks = list(_json_tasks(text, path) if text.lstrip().startswith("{") else _csv_tasks(text, path))
    if not tasks:
        raise UsageError(f"{path} holds no tasks")
    return tasks[:n]


def _json_tasks(text: str, path: Path) -> Iterator[Task]:
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        if not line.strip():
            continue
        try:
            yield _task_of(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            known = 'GSM8K (question, answer), HumanEval (prompt, test, entry_point) or {"task": …}'
            raise UsageError(f"{path}, line {number} is no task ({error}); known formats: {known}") from error


def _task_of(entry: Mapping[str, Any]) -> Task:
    if "entry_point" in entry:
        program = Program(_text(entry, "prompt"), _text(entry, "test"), _text(entry, "entry_point"))
        return Task("humaneval", _HUMANEVAL_TEXT.format(prompt=program.prompt), program=program)
    if "question" in entry:
        reasoning, mark, number = _text(entry, "answer").rpartition("####")
        if not mark:
            raise ValueError(f"no number behind #### in {reasoning[:40]!r}")
        return Task("gsm8k", _text(entry, "question"), number.strip())
    return Task("plain", _text(entry, "task"))


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry[key]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} is no text")
    value.encode()  # half a character, which JSON can spell, raises a ValueError
    return value


def _csv_tasks(text: str, path: Path) -> Iterator[Task]:
    """Question, four choices and the right letter stand last in each row, after a subject or not; a header is passed over."""
    for number, row in enumerate(_csv_rows(text, path), 1):
        if not row or (number == 1 and row[-1] == "answer"):
            continue
        if len(row) < 6 or row[-1].strip() not in tuple(_LETTERS):
            raise UsageError(f"{path}, row {number} is no task: MMLU rows are question, four choices, and the letter of the right one")
        yield _choice(row[-6], row[-5:-1], row[-1].strip())


def _csv_rows(text: str, path: Path) -> Iterator[list[str]]:
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        yield from rows
    except csv.Error as error:
        raise UsageError(f"{path}, line {rows.line_num} cannot be read as CSV: {error}") from error


def _choice(question: str, choices: Sequence[str], letter: str) -> Task:
    lines = [f"{name}. {choice}" for name, choice in zip(_LETTERS, choices, strict=True)]
    return Task("mmlu", "\n".join([question.strip(), "", *lines]) + _MMLU_ENDING, letter)
