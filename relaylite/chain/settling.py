"""Settling: while nothing runs, what a conversation took over with loss is computed exactly, so that errors do not pile up.

Each past is a run of prompt tokens that a later prompt will start with. Other work goes first: it ends a settling that is going on,
which keeps what it had computed by whole steps.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from typing import cast

import numpy as np

from relaylite.chain.runner import Prefilled, Run, Runner
from relaylite.errors import Cancelled, RelayliteError
from relaylite.events import Phase
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import PREFIX
from relaylite.reuse.rows import Tokens

STEP = 256  # tokens computed before their rows are kept


def settle(runner: Runner, pasts: Iterable[Tokens], run: Run | None = None) -> int:
    """Compute what is not known exactly of each of `pasts`, until other work comes; the number of tokens computed.

    `run`: the one in the background that this shall be. Raises EngineBusy if the engine is in use, EngineClosed.
    """
    run = run or Run(is_background=True)
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
        plan = _ended(runner.prefill(run, plan)).plan
        run.raise_if_cancelled()
        runner.store.put(runner.engine.harvest("", heeds_cancel=True))
        yield plan.count(Kind.NEW)


def _ended(phases: Generator[Phase, None, Prefilled]) -> Prefilled:
    """What a prefill returns, its phases unseen."""
    while True:
        try:
            next(phases)
        except StopIteration as end:
            return cast(Prefilled, end.value)


class Settling:
    """Settles a conversation, in a thread of its own, when `after_s` seconds have passed since `start`; never if that is None.

    `stop` calls it off, another `start` puts it off. `pasts` is a method of the conversation, which is not kept alive for this: when it
    is dropped, that calls it off too.
    """

    def __init__(self, runner: Runner, pasts: Callable[[], Iterable[Tokens]], after_s: float | None) -> None:
        self._runner, self._after_s = runner, after_s
        self._pasts = weakref.WeakMethod(pasts, lambda _: self.stop())
        self._timer: threading.Timer | None = None
        self._run = Run(is_background=True)

    def start(self) -> None:
        self.stop()
        if self._after_s is not None:
            self._run = Run(is_background=True)
            self._timer = threading.Timer(self._after_s, self._settle_quietly, [self._run])
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Takes no lock, since anything may drop a conversation: what is being computed ends with its step."""
        self._run.cancelled.set()
        if self._timer is not None:
            self._timer.cancel()

    def _settle_quietly(self, run: Run) -> None:
        """Whatever keeps it from working (the engine is in use, the model was closed) is no news for anyone."""
        with suppress(RelayliteError):
            settle(self._runner, self._known_pasts(), run)

    def _known_pasts(self) -> Iterator[Tokens]:
        """The pasts as they are when the first one is asked for; the conversation may be dropped while they are computed."""
        pasts = self._pasts()
        known = [] if pasts is None else list(pasts())
        del pasts
        yield from known
