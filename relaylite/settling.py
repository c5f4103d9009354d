"""Settling: while nothing runs, what a conversation took over with loss is computed exactly, so that errors do not pile up.

Each past is a run of prompt tokens that a later prompt will start with. Other work goes first: it ends a settling that is going on,
which keeps what it had computed by whole steps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import numpy as np

from relaylite.errors import Cancelled, RelayliteError
from relaylite.plan import Kind
from relaylite.planner import make_plan
from relaylite.policies import PREFIX
from relaylite.rows import Tokens
from relaylite.runner import Run, Runner

STEP = 256  # tokens computed before their rows are kept; keeping them cannot be interrupted


def settle(runner: Runner, pasts: Iterable[Tokens]) -> int:
    """Compute what is not known exactly of each of `pasts`, until other work comes; the number of tokens computed.

    Raises EngineBusy if the engine is in use, EngineClosed.
    """
    run = Run(is_background=True)
    n_computed = 0
    with suppress(Cancelled), runner.lend(run), runner.store.uncounted():
        for tokens in pasts:
            for n_tokens in _steps(runner, run, tokens):
                n_computed += n_tokens
    return n_computed


def _steps(runner: Runner, run: Run, tokens: Tokens) -> Iterator[int]:
    """Computes one step after the other, as long as there is room for their rows; yields the tokens of each when they are kept."""
    run.raise_if_cancelled()
    if not 0 < len(tokens) < runner.engine.info.n_ctx:
        return
    n_missing = make_plan(np.append(tokens, tokens[-1]), runner.matcher, PREFIX).count(Kind.NEW) - 1  # a plan's last token is always new
    for end in range(len(tokens) - n_missing + STEP, len(tokens) + STEP, STEP) if n_missing else ():
        plan = make_plan(tokens[:end], runner.matcher, PREFIX)
        if plan.count(Kind.NEW) > STEP:  # what the step before computed is not there
            return
        for _ in runner.prefill(run, plan):
            pass
        run.raise_if_cancelled()
        runner.store.put(runner.engine.harvest(""))
        yield plan.count(Kind.NEW)


class Timer:
    """Calls `work` in a thread of its own when so many seconds have passed since `start`; `stop` or another `start` calls that off."""

    def __init__(self, work: Callable[[], object], after_s: float | None) -> None:
        self._work, self._after_s = work, after_s
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        self.stop()
        if self._after_s is not None:
            self._timer = threading.Timer(self._after_s, self._work_quietly)
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _work_quietly(self) -> None:
        """Whatever keeps it from working (the engine is in use, the model was closed) is no news for anyone."""
        with suppress(RelayliteError):
            self._work()
