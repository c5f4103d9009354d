"""Whether an answer is right: a number, a letter, or a program that passes its tests.

Programs run in a process of their own with limits of time and memory. That keeps mistakes in, not malice: it is no sandbox.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from pathlib import Path

from relaylite.bench.tasks import Program, Task

TIME_LIMIT_S = 10
MEMORY_LIMIT_BYTES = 1 << 30

_NUMBER = re.compile(r"-?\$?\d[\d,]*(?:\.\d+)?|-?\$?\.\d+")
_STATED = re.compile(r"answer", re.IGNORECASE)
_LETTER = re.compile(r"\(?\b([A-D])\b\)?")
_CODE_BLOCK = re.compile(r"```[ \t]*\w*[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)

# Runs what stands in argv[1]; only a program that gets to its end makes it print the token that came on standard input.
_BOOTSTRAP = """
import os, resource, sys
token = sys.stdin.readline()
for limit, value in ((resource.RLIMIT_AS, {memory}), (resource.RLIMIT_CPU, {seconds}), (resource.RLIMIT_FSIZE, 1 << 20)):
    try:
        resource.setrlimit(limit, (value, value))
    except (OSError, ValueError):
        pass
out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
with open(sys.argv[1], encoding="utf-8") as file:
    source = file.read()
exec(compile(source, "answer", "exec"), {{"__name__": "answer"}})
os.write(out, token.encode())
"""


def is_right(task: Task, answer: str) -> bool:
    """Whether `answer` solves `task`; runs code if the task is a program."""
    if task.program is not None:
        return passes(task.program, answer)
    return number_in(answer) == _number(task.expected) if task.kind == "gsm8k" else letter_in(answer) == task.expected


def number_in(answer: str) -> Decimal | None:
    """The number behind the last "Answer:" that has one, else the last number; None if there is none."""
    for stated in reversed(list(_STATED.finditer(answer))):
        found = _NUMBER.search(_line_at(answer, stated.end()))
        if found:
            return _number(found.group())
    numbers = _NUMBER.findall(answer)
    return _number(numbers[-1]) if numbers else None


def letter_in(answer: str) -> str | None:
    """The letter behind the last "Answer:" that has one, else the letter that the answer begins with; None if there is none."""
    for stated in reversed(list(_STATED.finditer(answer))):
        found = _LETTER.search(_line_at(answer, stated.end()))
        if found:
            return found.group(1)
    begins = re.match(r"\W*([A-D])(?:[.):\s]|\Z)", answer)
    return begins.group(1) if begins else None


def _line_at(text: str, position: int) -> str:
    """From `position` to the end of its line."""
    return text[position:].split("\n", 1)[0]


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text.replace(",", "").replace("$", ""))
    except InvalidOperation:
        return None


def code_in(answer: str, entry_point: str) -> str:
    """The last code block that defines `entry_point`, else the last code block, else all of the answer."""
    blocks: list[str] = _CODE_BLOCK.findall(answer)
    defining = [block for block in blocks if re.search(rf"^def {re.escape(entry_point)}\b", block, re.MULTILINE)]
    return (defining or blocks or [answer])[-1]


def passes(program: Program, answer: str, *, seconds: int = TIME_LIMIT_S) -> bool:
    """Run the code of `answer` and then the tests, in a process that ends after `seconds`."""
    code = code_in(answer, program.entry_point)
    is_whole = re.search(rf"^def {re.escape(program.entry_point)}\b", code, re.MULTILINE)
    given = program.prompt if not is_whole else _before_function(program)
    source = f"{given}\n{code}\n\n{program.test}\n\ncheck({program.entry_point})\n"
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "answer.py")
        file.write_text(source, encoding="utf-8", errors="replace")
        command = [sys.executable, "-I", "-c", _BOOTSTRAP.format(memory=MEMORY_LIMIT_BYTES, seconds=seconds), str(file)]
        process = subprocess.Popen(
            command, cwd=folder, env={"PATH": os.defpath}, start_new_session=True, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            printed, _ = process.communicate(token, timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        finally:
            with suppress(ProcessLookupError):  # with all that it started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return printed == token


def _before_function(program: Program) -> str:
    """Imports and other functions that the task gave before the one to be written."""
    return program.prompt.split(f"def {program.entry_point}", 1)[0]
