"""`hold`: a trial of a file that was never opened here, which ends in nothing or in one line."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from relaylite.engine import native
from relaylite.engine.options import EngineOptions
from relaylite.engine.trial import passed
from relaylite.engine.trial.process import CannotBeHeld, TrialProcess
from relaylite.gguf import fingerprint
from relaylite.gguf.adapters import Adapter
from relaylite.gguf.header import part_names

log = logging.getLogger("relaylite.trial")

NOTICE = "checking {name} in a process of its own, as it was never opened here"


def hold(path: Path, adapters: tuple[Adapter, ...], options: EngineOptions, on_progress: Callable[[float], None]) -> None:
    """Have the file, with its adapters, opened by a child process, unless that went well before with this llama.cpp.

    `on_progress(0.0)` is called at least every 0.1 s; what it raises ends the child and comes out. Raises ModelFileError if the child does
    not survive, and what it raised if it refused the file. Where no child can be started, a line in the log says so.
    """
    if not options.trial:
        return
    mark = _mark(path, adapters, options, on_progress)
    if passed.holds(mark):
        return
    options.tell(NOTICE.format(name=path.name))
    try:
        TrialProcess(path, options).result(on_progress)
    except CannotBeHeld as error:
        log.warning("%s is opened without a trial: %s", path, error)
        return
    finally:
        options.tell("")
    passed.add(mark)


def _mark(path: Path, adapters: tuple[Adapter, ...], options: EngineOptions, on_progress: Callable[[float], None]) -> str:
    """The same for what llama.cpp would meet again: these files, on this build, with rows of this type, on the same kind of device."""
    files = [path.with_name(name) for name in part_names(path.name)]
    contents = [fingerprint.of_file(file, lambda: on_progress(0.0)) for file in (*files, *sorted(adapter.path for adapter in adapters))]
    return fingerprint.combined(*contents, native.build(), options.kv_type, options.n_offloaded != 0)
