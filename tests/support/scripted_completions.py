"""Completions without a model, at the seam of the server: byte tokens, and answers that the test enqueues."""

from __future__ import annotations

import asyncio
import codecs
import math
import queue
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

from relaylite.completion.answer import CompletionEvent, Finished, Piece, Prefilled, Reuse, TokenLogprob
from relaylite.completion.overview import Overview, RequestState, Totals
from relaylite.completion.request import ChatMessage, CompletionRequest
from relaylite.engine.interface import ModelInfo
from relaylite.errors import Cancelled, ContextOverflow, EngineClosed
from relaylite.metrics import TurnMetrics
from support.fakes import ByteTokenizer


class ScriptedCompletions:
    """Fulfils `relaylite.serve.interface.CompletionsLike`. Requests run one after the other, in the order they came.

    `enqueue("text", …)` scripts the next answers; with none left, the answer is `fallback`. Clear `prefill_gate` or `token_gate` to stop
    there until the test sets it again. `fail(error, after_tokens=n)` raises once; None fails in prefill. `requests` records what was
    asked, `cancelled` the ids of what was cancelled and when.
    """

    def __init__(self, *, n_ctx: int = 4096, n_parallel: int = 1) -> None:
        self.info = ModelInfo("scripted", "/models/scripted.gguf", "fake", 2, n_ctx, n_ctx, 1000, n_vocab=259)
        self.tokenizer = ByteTokenizer()
        self.fallback, self.reuse = "Understood.", Reuse()
        self.prefill_gate, self.token_gate = threading.Event(), threading.Event()
        self.prefill_gate.set()
        self.token_gate.set()
        self.requests: list[CompletionRequest] = []
        self.cancelled: dict[str, float] = {}
        self.states: dict[str, RequestState] = {}
        self.is_closed = False
        self._n_parallel = n_parallel
        self._answers: deque[str] = deque()
        self._failure: tuple[Exception, int | None] | None = None
        self.turn = threading.Semaphore(n_parallel)

    def enqueue(self, *answers: str) -> None:
        self._answers.extend(answers)

    def fail(self, error: Exception, *, after_tokens: int | None = None) -> None:
        self._failure = (error, after_tokens)

    def raise_scripted(self, n_tokens: int | None) -> None:
        if self._failure and self._failure[1] == n_tokens:
            error, self._failure = self._failure[0], None
            raise error

    def next_answer(self) -> str:
        return self._answers.popleft() if self._answers else self.fallback

    # the seam

    def submit(self, request: CompletionRequest) -> ScriptedTicket:
        if self.is_closed:
            raise EngineClosed("closed")
        prompt = self._prompt(request)
        if len(prompt) >= self.info.n_ctx:
            raise ContextOverflow(f"the prompt has {len(prompt)} tokens and does not fit the context of {self.info.n_ctx}")
        self.requests.append(request)
        self.states[request.id] = RequestState(request.id, "queued", time.time())
        return ScriptedTicket(self, request, prompt)

    def overview(self) -> Overview:
        totals = Totals(requests=len(self.states), generated_tokens=sum(each.generated_tokens for each in self.states.values()))
        return Overview(totals, tuple(self.states.values()), self._n_parallel)

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        return self.tokenizer.tokenize(text, parse_special=parse_special)

    def piece(self, token: int) -> bytes:
        return self.tokenizer.piece(token)

    def render(self, messages: Sequence[ChatMessage]) -> tuple[str, tuple[int, ...]]:
        text = "".join(f"<|im_start|>{each.role}\n{each.text}<|im_end|>\n" for each in messages)
        return text, tuple(text.encode())

    def close(self) -> None:
        self.is_closed = True

    def _prompt(self, request: CompletionRequest) -> tuple[int, ...]:
        if request.prompt is None:
            return self.render(request.messages)[1]
        if isinstance(request.prompt, str):
            return tuple(self.tokenize(request.prompt, parse_special=request.parses_special))
        return request.prompt


class ScriptedTicket:
    """Runs in a thread of its own."""

    def __init__(self, script: ScriptedCompletions, request: CompletionRequest, prompt: tuple[int, ...]) -> None:
        self.id = request.id
        self._script, self._request, self._prompt = script, request, prompt
        self._events: queue.SimpleQueue[CompletionEvent | Exception | None] = queue.SimpleQueue()
        self._cancelled = threading.Event()
        self._arrived: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def events(self) -> Iterator[CompletionEvent]:
        while (event := self._events.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event

    async def events_async(self) -> AsyncIterator[CompletionEvent]:
        self._arrived = asyncio.get_running_loop(), asyncio.Event()
        while True:
            self._arrived[1].clear()
            while not self._events.empty():
                event = self._events.get()
                if event is None:
                    return
                if isinstance(event, Exception):
                    raise event
                yield event
            await self._arrived[1].wait()

    def cancel(self) -> None:
        self._script.cancelled.setdefault(self.id, time.monotonic())
        self._cancelled.set()

    def _put(self, event: CompletionEvent | Exception | None) -> None:
        self._events.put(event)
        if self._arrived and not self._arrived[0].is_closed():
            self._arrived[0].call_soon_threadsafe(self._arrived[1].set)

    def _run(self) -> None:
        try:
            while not self._script.turn.acquire(timeout=0.01):
                self._check()
            try:
                self._answer()
            finally:
                self._script.turn.release()
            self._put(None)
        except Exception as error:
            self._state(state="cancelled" if isinstance(error, Cancelled) else "failed")
            self._put(error)

    def _answer(self) -> None:
        self._state(state="prefill", prompt_tokens=len(self._prompt))
        self._wait(self._script.prefill_gate)
        self._script.raise_scripted(None)
        self._put(Prefilled(self._prompt, 1.0, 10.0, self._script.reuse))
        self._state(state="writing")
        for index in range(self._request.n):
            self._write(index)
        self._state(state="finished", ttft_ms=11.0)

    def _write(self, index: int) -> None:
        whole = self._script.next_answer()
        ends = [(whole.find(stop), stop) for stop in self._request.sampling.stop if stop in whole]
        cut, stop = min(ends, default=(len(whole), ""))
        tokens, limit = whole[:cut].encode(), self._request.sampling.max_tokens
        is_cut = 0 <= limit < len(tokens)
        tokens = tokens[:limit] if is_cut else tokens
        decoder, text = codecs.getincrementaldecoder("utf-8")("replace"), ""
        logprobs: list[TokenLogprob] = []
        for n, token in enumerate(tokens):
            self._wait(self._script.token_gate)
            self._script.raise_scripted(n)
            piece, logprob = decoder.decode(bytes([token])), self._logprob(token)
            logprobs += [logprob] if logprob else []
            text += piece
            self._state(generated_tokens=n + 1, text=text)
            self._put(Piece(index, piece, token, logprob))
        text += decoder.decode(b"", final=True)
        metrics = TurnMetrics(prompt_tokens=len(self._prompt), generated_tokens=len(tokens), ttft_ms=11.0)
        reason = "length" if is_cut else "stop"
        self._put(
            Finished(
                *(index, text, tuple(tokens), reason, metrics, self._script.reuse, 5.0),
                stop="" if is_cut else stop,
                logprobs=tuple(logprobs),
            )
        )

    def _logprob(self, token: int) -> TokenLogprob | None:
        n = self._request.n_logprobs
        return None if n is None else TokenLogprob(token, -0.5, tuple((i, -math.inf if i else -0.5) for i in range(n)))

    def _wait(self, gate: threading.Event) -> None:
        while not gate.wait(0.005):
            self._check()
        self._check()

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled("stopped")
        if self._script.is_closed:
            raise EngineClosed("closed")

    def _state(self, **values: object) -> None:
        self._script.states[self.id] = replace(self._script.states[self.id], **values)  # type: ignore[arg-type]
