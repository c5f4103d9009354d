"""`Runner`: one engine and its store, lent to one run at a time.

A second run is refused with EngineBusy, unless the first one is in the background and gives way. `cancel` and `close` may come from any
thread. Knows nothing of agents.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING

from relaylite.engine.interface import EngineLike, ModelInfo
from relaylite.errors import Cancelled, EngineBusy, EngineClosed, RelayliteError
from relaylite.events import Event, Phase, PhaseName
from relaylite.prompt.builder import Prompt, PromptBuilder
from relaylite.prompt.tokenizer import Tokenizer
from relaylite.reuse.plan import Plan
from relaylite.reuse.planner import Matcher
from relaylite.reuse.policies import PREFIX, Policy
from relaylite.reuse.rows import Tokens
from relaylite.runs.prefilling import Prefilled, carry_out

if TYPE_CHECKING:
    from relaylite.store import Store
    from relaylite.store.prefill_speed import PrefillSpeed

CLOSE_TIMEOUT_S = 10.0
CLOSED_MEANWHILE = "the model was closed while it was writing; what was written until then is kept"
WAIT_S = 0.1  # between two looks of a run that waits for the engine
READER_GRACE_S = 1.0  # how long the reader of a stream has, when the model is closed, to read its error


@dataclass(slots=True)
class Run:
    """One use of the engine. `reader`: the thread that began to read its events.

    A run in the background is cancelled as soon as another one wants the engine.
    """

    is_background: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    reader: int = 0
    _events: weakref.ref[Generator[Event, None, None]] | None = field(default=None, init=False, repr=False)

    def raise_if_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled("stopped; what was written until then is kept")

    def driven_by(self, events: Generator[Event, None, None]) -> None:
        """Know the generator that drives this run, without keeping it alive."""
        self._events = weakref.ref(events)

    def end_half_read(self) -> None:
        """End the generator if nobody is reading it right now. One that is being read ends by being cancelled."""
        events = self._events() if self._events is not None else None
        if events is not None:
            with suppress(ValueError):  # it is executing in another thread
                events.close()


class Runner:
    """Owns the engine: closes it, and decides who may use it."""

    def __init__(self, engine: EngineLike, store: Store) -> None:
        self.engine, self.store = engine, store
        self.prompt_builder = PromptBuilder(engine.template, engine.tokenizer)
        self._lock = threading.Condition()
        self._run: Run | None = None
        self._is_closed = False
        self._warnings = list(self.info.warnings)
        self._process = os.getpid()
        self._prefill_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="relaylite-prefill")
        self._await_prefill_thread()  # start it here: an interrupt while its thread starts would leave two

    @property
    def is_closed(self) -> bool:
        """Closed, or of the process that this one was forked from."""
        return self._is_closed or os.getpid() != self._process

    @property
    def info(self) -> ModelInfo:
        return self.engine.info

    @property
    def speed(self) -> PrefillSpeed:
        """How long computing one prompt token takes here; the store remembers it."""
        return self.store.speed

    def take_warnings(self) -> list[str]:
        """What the user should know of this model; each once."""
        warnings, self._warnings = self._warnings, []
        return warnings

    @property
    def matcher(self) -> Matcher:
        """Finds what a prompt may take over: the engine where it keeps that itself, else the store."""
        return self.engine.kept_states or self.store

    @property
    def tokenizer(self) -> Tokenizer:
        self.check_open()
        return self.engine.tokenizer

    def check_open(self) -> None:
        """Raises EngineClosed if the model cannot be used, not even its vocabulary."""
        if self._is_closed:
            raise EngineClosed("the model is closed; open it again with Relay(...)")
        if os.getpid() != self._process:
            raise EngineClosed("the model was loaded before this process was forked; open it again here with Relay(...)")

    def check_free(self) -> None:
        """Raises EngineClosed or EngineBusy if a run could not begin now."""
        self.check_open()
        if self._is_taken:
            raise EngineBusy("the model is writing for another run; read that run to its end, cancel it or close its stream first")

    @property
    def _is_taken(self) -> bool:
        return self._run is not None and not self._run.is_background

    def check_idle(self, run: Run) -> None:
        """Raises EngineBusy while `run` goes on."""
        if self._run is run:
            raise EngineBusy("the chain is writing; cancel it or read it to its end first")

    def effective(self, policy: Policy) -> Policy:
        """The policy that runs: `prefix` instead of one that relays, where the model cannot relay."""
        return PREFIX if policy.use_spans and self.info.relay_refusal else policy

    @contextmanager
    def lend(self, run: Run, *, waits: bool = False) -> Iterator[None]:
        """The engine belongs to `run` inside. Left by an error or an interrupt, it waits until the engine has stopped.

        Raises what `check_free` raises, unless it `waits` for the run that goes on, and Cancelled if `run` was cancelled before. If the
        model is closed meanwhile, a Cancelled from inside becomes EngineClosed, unless the run is in the background.
        """
        with self._lock:
            while waits and self._is_taken and not self._is_closed and not run.cancelled.is_set():
                self._lock.wait(WAIT_S)
            self._clear_background()
            self._run = run
            run.reader = threading.get_ident()
        try:
            run.raise_if_cancelled()
            yield
        except BaseException as error:
            self.cancel(run)
            self._await_prefill_thread()
            if isinstance(error, Cancelled) and self.is_closed and not run.is_background:
                raise EngineClosed(CLOSED_MEANWHILE) from error
            raise
        finally:
            with self._lock:
                self._run = None
                self._lock.notify_all()

    def _clear_background(self) -> None:
        """Stop what runs in the background and wait until it has; to be called with the lock held. Raises what `check_free` raises.

        Others may wait as well, or close the model meanwhile: who gets the engine is decided anew after every wait.
        """
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        self.check_free()
        while (background := self._run) is not None:
            self.cancel(background)
            if not self._lock.wait_for(lambda: self._run is not background, deadline - time.monotonic()):
                raise EngineBusy(f"work in the background did not stop within {CLOSE_TIMEOUT_S:.0f} s; try again")
            self.check_free()

    def _await_prefill_thread(self) -> None:
        """Until nothing of a run is left in the prefill thread."""
        with suppress(RuntimeError):  # Python is going down and has ended the thread already
            self._prefill_thread.submit(int).result()

    def cancel(self, run: Run) -> None:
        """Stop `run`, now or when it begins; from any thread."""
        run.cancelled.set()
        with self._lock:
            if self._run is run:
                self.engine.cancel()

    def prefill(self, run: Run, plan: Plan) -> Generator[Phase, None, Prefilled]:
        """Yields the phases as they begin; returns the plan that was carried out: another one if rows turned out to be damaged.

        The work is done in a thread of its own: the reader sees each phase while it lasts, and can be interrupted.
        """
        phases: SimpleQueue[PhaseName | None] = SimpleQueue()

        def on_phase(phase: PhaseName) -> None:
            run.raise_if_cancelled()
            phases.put(phase)

        future = self._prefill_thread.submit(carry_out, plan, self.engine, self.store, on_phase)
        future.add_done_callback(lambda _: phases.put(None))
        while (phase := phases.get()) is not None:
            yield Phase(phase)
        return future.result()

    def read_ahead(self, prompt: Callable[[], Prompt]) -> None:
        """Read what the disk holds of a prompt that is needed soon, in a thread of its own: so loading hides behind writing.

        `prompt` is called here and not in the thread, since the model may be closed meanwhile. If it fails, nothing is read: whoever
        needs the prompt will be told.
        """
        if self.store.has_disk:
            with suppress(RelayliteError):
                tokens = prompt().tokens
                threading.Thread(target=_read_ahead, args=(self.store, tokens), name="relaylite-read-ahead", daemon=True).start()

    def close(self) -> None:
        """Cancel what runs, wait for it, and free the model. Does nothing the second time, or in a forked process."""
        with self._lock:  # no run begins between this and the look at the one that goes on
            if self.is_closed:
                return
            self._is_closed = True
        began = time.monotonic()
        while (run := self._run) is not None:
            self.cancel(run)
            if run.reader == threading.get_ident() or time.monotonic() > began + READER_GRACE_S:
                run.end_half_read()
            with self._lock:
                if self._run is run and not self._lock.wait(0.02) and time.monotonic() > began + CLOSE_TIMEOUT_S:
                    raise EngineBusy(f"the model did not stop within {CLOSE_TIMEOUT_S:.0f} s; it is freed when the process ends")
        self._prefill_thread.shutdown()
        self.engine.close()


def _read_ahead(store: Store, tokens: Tokens) -> None:
    with suppress(RuntimeError):  # Python is going down and starts no more threads
        store.prefetch(tokens)
