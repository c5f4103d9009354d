"""`TrialProcess`: the child process of a trial, seen from the parent: how it is started, how long it may take, and what its end means."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from relaylite import errors
from relaylite.engine.options import EngineOptions
from relaylite.errors import ModelError, ModelFileError, RelayliteError
from relaylite.gguf.header import part_names

POLL_S = 0.1
LEAVE_S = 0.5  # how long a child that was killed may take to be gone
LEAST_LIMIT_S, BYTES_PER_S = 120.0, 10e6  # a slow disk on a busy machine

# The child looks for modules where this process does: not in the folder that it happens to be started in.
_CODE = "import sys, json; sys.path = json.loads(sys.argv[2]); from relaylite.engine.trial.child import main; main()"


class CannotBeHeld(Exception):
    """No child could be started, or it ended before it touched the file. That says nothing about the file."""


class TrialProcess:
    """Opens `path` in a process of its own: without a terminal, without standard input, in a session where no Ctrl-C reaches it."""

    def __init__(self, path: Path, options: EngineOptions) -> None:
        """Raises CannotBeHeld."""
        self._path = path
        self._limit_s = LEAST_LIMIT_S + sum(path.with_name(name).stat().st_size for name in part_names(path.name)) / BYTES_PER_S
        if not sys.executable or getattr(sys, "frozen", False):
            raise CannotBeHeld("there is no Python to start")
        request = {"parent": os.getpid(), "path": os.fspath(path), "options": _tried(options)}
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-c", _CODE, json.dumps(request), json.dumps([*map(os.fsdecode, sys.path)])],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "GGML_NO_BACKTRACE": "1"},
                start_new_session=True,
            )
        except OSError as error:
            raise CannotBeHeld(error.strerror) from error

    def result(self, on_progress: Callable[[float], None]) -> None:
        """Wait for the end. Raises what the file deserves: see `trial.hold`."""
        ends = time.monotonic() + self._limit_s
        try:
            while True:
                on_progress(0.0)
                with suppress(subprocess.TimeoutExpired):
                    out, err = self._child.communicate(timeout=POLL_S)
                    break
                if time.monotonic() > ends:
                    raise ModelFileError(f"{self._path} was not open after {self._limit_s:.0f} s of trying; {_ADVICE}")
        finally:
            self._end()
        self._judge([line for line in map(_said, out.splitlines()) if line is not None], err.decode("utf-8", "replace"))

    def _end(self) -> None:
        if self._child.poll() is None:
            self._child.kill()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(LEAVE_S)
        for pipe in (self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()

    def _judge(self, said: list[tuple[str, str]], err: str) -> None:
        code = self._child.returncode
        if not said:
            raise CannotBeHeld(f"its process ended with code {code}: {err.strip().splitlines()[-1:]}")
        last, text = said[-1]
        if last == "opened":
            return
        if last in ("begun", "aborted"):
            if code == -signal.SIGKILL:
                raise ModelError(f"the system ended the process that tried {self._path} (SIGKILL): most likely memory ran out; free some")
            raise ModelFileError(f"{self._path} makes llama.cpp end the process ({_reason(text, err, code)}); {_ADVICE}")
        kind = getattr(errors, last, None)
        if isinstance(kind, type) and issubclass(kind, RelayliteError):
            raise kind(text)
        raise ModelFileError(f"{self._path} cannot be opened ({last}: {' '.join(text.split())[:200]}); {_ADVICE}")


_ADVICE = "it is damaged or made for another llama.cpp: download it again, or name another file"


def _tried(options: EngineOptions) -> dict[str, object]:
    """What the child opens the file with: as it is wanted, but with a template that always works, and without workers."""
    return {
        "n_ctx": options.n_ctx,
        "n_threads": options.n_threads,
        "n_gpu_layers": 0 if options.rpc else options.n_gpu_layers,
        "lora": options.lora,
        "kv_type": options.kv_type,
        "chat_template": "chatml",
        "trial": False,
    }


def _said(line: bytes) -> tuple[str, str] | None:
    """A line of the child's; None for what a library printed."""
    try:
        data = json.loads(line)
        return str(data["said"]), str(data["text"])
    except (ValueError, TypeError, KeyError):
        return None


def _reason(text: str, err: str, code: int) -> str:
    """The assertion that failed, without the folders it was compiled in; else what C++ threw; else the signal."""
    if text:
        return re.sub(r"^\S*[/\\]", "", " ".join(text.split()))[:200]
    thrown = re.search(r"what\(\): +(.+)", err)
    ended = signal.Signals(-code).name if code < 0 and -code in set(signal.Signals) else f"exit code {code}"
    return f"{ended}, {thrown[1].strip()[:200]}" if thrown else ended
