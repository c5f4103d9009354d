"""`main`: what the child process of a trial does. It opens the file as the engine does, has it write a token, and says how that went.

It says so in lines of JSON on its standard output, for `process.py`. Nothing else reads it, and it reads nothing.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from relaylite.engine.engine import Engine
from relaylite.engine.options import EngineOptions
from relaylite.machine import devices
from relaylite.reuse.plan import Kind, Plan, Segment
from relaylite.reuse.policies import FULL
from relaylite.sampling import Sampling

PARENT_POLL_S = 0.2
PROBE = "1 2 3 4 5"


def main() -> None:
    """`sys.argv[1]`: JSON of the parent's process id, the path, and options of the engine by their names."""
    request = json.loads(sys.argv[1])
    threading.Thread(target=_leave_with, args=(request["parent"],), daemon=True).start()
    _be_expendable()
    devices.before_abort(lambda message: _say("aborted", message))
    _say("begun")
    try:
        _attempt(Path(request["path"]), request["options"])
    except Exception as error:
        _say(type(error).__name__, getattr(error, "strerror", None) or str(error))
    else:
        _say("opened")
    os._exit(0)


def _attempt(path: Path, options: dict[str, Any]) -> None:
    """What an engine asks of llama.cpp, in small: open the file, compute a prompt, write a token, read the rows."""
    engine = Engine.open(path, EngineOptions(**options))
    tokens = np.array(engine.tokenizer.tokenize(PROBE, parse_special=True), np.int32)
    engine.prefill(Plan(tokens, (Segment(0, len(tokens), Kind.NEW),), FULL), lambda phase: None)
    list(engine.generate(Sampling(max_tokens=1)))
    engine.harvest("")


def _say(what: str, text: str = "") -> None:
    os.write(1, (json.dumps({"said": what, "text": text}) + "\n").encode("ascii"))


def _leave_with(parent: int) -> None:
    """End when the parent has ended, however it did."""
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os._exit(1)


def _be_expendable() -> None:
    """No core file is left of this process, and if memory runs out, it goes before others."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
