"""Settling: while nothing runs, what a conversation took over with loss is computed exactly, so that errors do not pile up.

What is computed are the agents' earlier messages, with which later prompts will start. Other work goes first: it ends a settling that is
going on, which keeps what it has computed by whole steps.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import cast

import numpy as np

from relaylite.chain.agent_prompts import AgentPrompts
from relaylite.errors import Cancelled, RelayliteError
from relaylite.events import Phase
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import PREFIX
from relaylite.reuse.rows import Tokens
from relaylite.runs.prefilling import Prefilled
from relaylite.runs.runner import Run, Runner

STEP = 256  # tokens computed before their rows are kept


def settle(runner: Runner, starts: Iterable[Tokens], run: Run | None = None) -> int:
    """Compute what is not known exactly of these starts of prompts, until other work comes; the number of tokens computed.

    `run`: the one in the background that this shall be. Raises EngineBusy if the engine is in use, EngineClosed.
    """
    run = run or Run(is_background=True)
    n_new = 0
    with suppress(Cancelled), runner.lend(run), runner.store.uncounted():
        for tokens in starts:
            for n_tokens in _steps(runner, run, tokens):
                n_new += n_tokens
    return n_new


def _steps(runner: Runner, run: Run, tokens: Tokens) -> Iterator[int]:
    """Computes one step after the other, as long as there is room for their rows; yields the tokens of each when they are kept."""
    run.raise_if_cancelled()
    if not 0 < len(tokens) < runner.info.n_ctx:
        return
    n_missing = make_plan(np.append(tokens, tokens[-1]), runner.matcher, PREFIX).count(Kind.NEW) - 1  # a plan's last token is always new
    for end in range(len(tokens) - n_missing + STEP, len(tokens) + STEP, STEP) if n_missing else ():
        plan = make_plan(tokens[:end], runner.matcher, PREFIX)
        if plan.count(Kind.NEW) > STEP:  # the rows of the step before are not there
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

    `stop` calls it off, another `start` puts it off. `prompts_now` is a method of the chain, which is not kept alive for this:
    when the chain is dropped, that calls it off too.
    """

    def __init__(self, runner: Runner, prompts_now: Callable[[], AgentPrompts], after_s: float | None) -> None:
        self._runner, self._after_s = runner, after_s
        self._prompts_now = weakref.WeakMethod(prompts_now, lambda _: self.stop())
        self._timer: threading.Timer | None = None
        self._run = Run(is_background=True)

    def start(self) -> None:
        self.stop()
        if self._after_s is not None:
            self._run = Run(is_background=True)
            self._timer = threading.Timer(self._after_s, self._settle_quietly, [self._run])
            self._timer.name, self._timer.daemon = "relaylite-settle", True
            self._timer.start()

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Stops settling now, and starts its timer again when the block ends."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def stop(self) -> None:
        """Takes no lock, since anything may drop a chain: what is being computed ends with its step."""
        self._run.cancelled.set()
        if self._timer is not None:
            self._timer.cancel()

    def _settle_quietly(self, run: Run) -> None:
        """Nobody is told what keeps it from working: the engine is in use, or the model was closed."""
        with suppress(RelayliteError):
            settle(self._runner, self._earlier_messages(), run)

    def _earlier_messages(self) -> Iterator[Tokens]:
        """As they are when the first one is asked for. The chain is not held meanwhile, so it may be dropped."""
        prompts_now = self._prompts_now()
        known = [] if prompts_now is None else list(prompts_now().earlier_messages())
        del prompts_now
        yield from known
