"""`Completions`: requests of many clients on one model. They wait in one queue, and those that run take turns, token by token.

One thread computes. It holds the engine while there is anything to do, and gives it back to chains when there is not.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from relaylite.completion.answer import CompletionEvent, Prefilled
from relaylite.completion.entry import Entry
from relaylite.completion.order import next_of
from relaylite.completion.overview import Overview, State
from relaylite.completion.request import ChatMessage, CompletionRequest
from relaylite.completion.run import CompletionRun
from relaylite.completion.seats import Seat, Seats
from relaylite.completion.tally import Tally
from relaylite.completion.tenant import Tenant
from relaylite.completion.ticket import Ticket
from relaylite.engine.interface import ModelInfo
from relaylite.errors import Cancelled, ContextOverflow, EngineClosed, RelayliteError, UsageError
from relaylite.prompt.known_answers import KnownAnswers
from relaylite.prompt.messages import Message, Text
from relaylite.reuse.plan import Kind
from relaylite.reuse.rows import Tokens
from relaylite.runs.runner import Run, Runner

logger = logging.getLogger(__name__)

DEFAULT_PARALLEL = 4
MAX_TENANTS = 256  # scopes whose answers are remembered; rows stay in the store as long as there is room
FLUSH_AFTER_S = 1.0  # without requests
SHOWN_ENDED = 50  # requests that ended and can still be told of


@dataclass(slots=True, eq=False)
class _Open:
    """A request that runs."""

    entry: Entry
    seat: Seat
    run: CompletionRun
    steps: Generator[CompletionEvent, None, None]


class Completions:
    """`n_parallel`: requests that may run at the same time; each takes a context of its own in memory, once it is needed.

    All methods may be called from any thread.
    """

    def __init__(self, runner: Runner, n_parallel: int = DEFAULT_PARALLEL) -> None:
        self._runner = runner
        self._seats = Seats(runner.engine, n_parallel)
        self._changed = threading.Condition()
        self._waiting: list[Entry] = []
        self._open: list[_Open] = []
        self._ended: deque[Entry] = deque(maxlen=SHOWN_ENDED)
        self._tenants: OrderedDict[str, Tenant] = OrderedDict()
        self._known = KnownAnswers()
        self._tally = Tally()
        self._thread: threading.Thread | None = None
        self._run = Run()  # the use of the engine that serves requests
        self._is_closed = False

    def submit(self, request: CompletionRequest) -> Ticket:
        """Put `request` in the queue. Raises UsageError or ContextOverflow for what cannot be, EngineClosed."""
        self._runner.check_open()
        request = replace(request, id=request.id or f"cmpl-{uuid4().hex[:24]}")
        tenant = self._tenant(request.scope)
        prompt = tenant.prompt(request)
        self._check(prompt.tokens)
        entry = Entry(request, tenant, prompt, self._give_up)
        with self._changed:
            if self._is_closed:
                raise EngineClosed("the model is closed")
            self._waiting.append(entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="relaylite-completions", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return entry

    @property
    def info(self) -> ModelInfo:
        return self._runner.info

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """The ids of `text`, without BOS; with `parse_special`, names of control tokens become those tokens."""
        return self._runner.tokenizer.tokenize(text, parse_special=parse_special)

    def piece(self, token: int) -> bytes:
        """The bytes of one token; b"" for control tokens."""
        return self._runner.tokenizer.piece(token)

    def render(self, messages: Sequence[ChatMessage]) -> tuple[str, tuple[int, ...]]:
        """The prompt that these messages become: its text and its tokens. Raises UsageError if the template refuses them."""
        prompt = self._runner.prompt_builder.build([Message(message.role, (Text(message.text),)) for message in messages])
        return "".join(part.text for part in prompt.parts), tuple(prompt.tokens.tolist())

    def overview(self) -> Overview:
        with self._changed:
            entries = [*self._ended, *(each.entry for each in self._open), *self._waiting]
            return Overview(self._tally.totals, tuple(entry.state for entry in entries), self._seats.limit)

    def close(self) -> None:
        """Cancel all requests, wait for the thread, and close the engines that were opened here. A second time it does nothing."""
        with self._changed:
            self._is_closed = True
            entries = [*self._waiting, *(each.entry for each in self._open)]
            self._changed.notify_all()
        for entry in entries:
            entry.cancel()
        self._run.cancelled.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._seats.close()

    # -- the queue ---------------------------------------------------------------------------------------------------------

    def _tenant(self, scope: str) -> Tenant:
        with self._changed:
            known = self._tenants.get(scope)
        made = known or Tenant(scope, self._runner, self._known)  # reads what is on disk: not while others wait for the lock
        with self._changed:
            tenant = self._tenants.setdefault(scope, made)
            self._tenants.move_to_end(scope)
            if len(self._tenants) > MAX_TENANTS:
                self._tenants.popitem(last=False)
            for each in self._tenants.values():
                each.is_alone = len(self._tenants) == 1
            return tenant

    def _check(self, prompt: Tokens) -> None:
        info = self._runner.info
        if not len(prompt):
            raise UsageError("the prompt is empty")
        if len(prompt) >= info.n_ctx:
            raise ContextOverflow(
                f"the prompt of {len(prompt)} tokens does not fit the context of {info.n_ctx}; shorten it, or raise --ctx"
            )
        if prompt.min() < 0 or prompt.max() >= info.n_vocab:
            raise UsageError(f"the prompt holds token ids outside of the model's vocabulary of {info.n_vocab}")

    def _give_up(self, entry: Entry) -> None:
        self._take_out(entry, "cancelled", Cancelled("cancelled while it waited"))

    def _take_out(self, entry: Entry, state: State, error: BaseException) -> None:
        """End a request that still waits. Any other one stays as it is."""
        with self._changed:
            if entry not in self._waiting:
                return
            self._waiting.remove(entry)
        self._end(entry, state, error)

    def _end(self, entry: Entry, state: State, error: BaseException | None = None) -> None:
        with self._changed:
            self._tally.ended(state)
            self._ended.append(entry)
        entry.end(state, error)

    # -- the thread --------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while self._await_requests():
            self._run = Run()
            try:
                with self._runner.lend(self._run, waits=True):
                    self._seats.forget()
                    self._serve()
            except Exception as error:  # whoever waits must be told, whatever it was
                if not isinstance(error, RelayliteError):
                    logger.exception("computing for requests failed")
                self._fail_all(error)

    def _await_requests(self) -> bool:
        """False when there will be none. If none come for a while, what is in memory only goes to disk: the process may be killed."""
        if not self._has_requests(FLUSH_AFTER_S) and not self._is_closed:
            self._runner.store.flush()
            self._has_requests()
        return not self._is_closed

    def _has_requests(self, timeout_s: float | None = None) -> bool:
        """Waits until there are some, or until this is closed."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: self._waiting or self._is_closed, timeout_s))

    def _serve(self) -> None:
        """Until nothing is left to do."""
        while self._admit() or self._open:
            for each in list(self._open):
                self._run.raise_if_cancelled()
                self._step(each)
                self._admit()

    def _admit(self) -> bool:
        """Start requests while there are seats for them. Whether one was started."""
        has_started = False
        while (waiting := self._queue()) and self._seats.has_free():
            entry = next_of(waiting, self._n_to_compute)
            try:
                entry.prompt = entry.tenant.renewed(entry.prompt, entry.request)
            except RelayliteError as error:
                self._take_out(entry, "failed", error)
            else:
                has_started |= self._start(entry)
        return has_started

    def _queue(self) -> list[Entry]:
        with self._changed:
            return [] if self._is_closed else list(self._waiting)

    def _n_to_compute(self, entry: Entry) -> int:
        return entry.tenant.plan(entry.prompt, entry.request.policy, self._runner.engine).count(Kind.NEW)

    def _start(self, entry: Entry) -> bool:
        """False if it was cancelled meanwhile."""
        with self._changed:
            if entry not in self._waiting:
                return False
            self._waiting.remove(entry)
            seat = self._seats.take(entry.prompt.tokens)
            run = CompletionRun(entry.request, entry.prompt, seat.engine, entry.tenant, entry.asked)
            entry.begin(run)
            self._open.append(_Open(entry, seat, run, run.steps()))
        return True

    def _step(self, each: _Open) -> None:
        entry = each.entry
        if entry.is_cancelled:
            self._leave(each, "cancelled", Cancelled("cancelled; what was computed until then is kept"))
            return
        try:
            event = next(each.steps, None)
        except Cancelled as error:
            self._leave(each, "cancelled", error)
        except Exception as error:  # one request's failure is not another's
            if not isinstance(error, RelayliteError):
                logger.exception("request %s failed", entry.id)
            self._leave(each, "failed", error)
        else:
            if event is None:
                self._leave(each, "finished")
            else:
                if isinstance(event, Prefilled) and (len(self._open) > 1 or self._waiting):
                    each.run.keep()  # others may begin with the same text
                self._tally.count(event)
                entry.give(event)

    def _leave(self, each: _Open, state: State, error: BaseException | None = None) -> None:
        each.steps.close()
        each.entry.leave()
        with self._changed:
            self._open.remove(each)
        self._seats.give_back(each.seat, each.run.computed)
        self._end(each.entry, state, error)

    def _fail_all(self, error: BaseException) -> None:
        for each in list(self._open):
            self._leave(each, "failed", error)
        with self._changed:
            waiting, self._waiting = self._waiting, []
        for entry in waiting:
            self._end(entry, "failed", error)
