"""A scripted engine at the seam of the model: byte tokens, answers that the test enqueues, rows whose origin can be read off them.

It is not a model: it decides nothing. What it does with rows is real, though: a plan is placed, moved and computed as an engine
does it, and each row says which token it is of, where it stands, and behind which tokens it was computed (`FakeEngine.verify`).
"""

from __future__ import annotations

import codecs
import re
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import log

import numpy as np

from relaylite.engine.interface import Delta, Memory, ModelInfo, Prefill, check_n_logprobs
from relaylite.errors import Cancelled, ContextOverflow, EngineClosed, UsageError
from relaylite.events import PhaseName
from relaylite.metrics import FINISH_CANCELLED, FINISH_LENGTH, FINISH_STOP, CellMap
from relaylite.prompt.template import CHATML, ChatTemplate
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.rows import RowLayout, Rows
from relaylite.sampling import Sampling


class ByteTokenizer:
    """Ids 0 to 255 are bytes; control tokens follow."""

    CONTROL = ("<|im_start|>", "<|im_end|>", "<|bos|>")
    N_TOKENS = 256 + len(CONTROL)

    def __init__(self, *, has_bos: bool = False) -> None:
        self.ids = {text: 256 + i for i, text in enumerate(self.CONTROL)}
        self.n_tokens = 256 + len(self.CONTROL)
        self.bos = self.ids["<|bos|>"] if has_bos else None

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        pieces = re.split("(" + "|".join(map(re.escape, self.CONTROL)) + ")", text) if parse_special else [text]
        return [token for piece in pieces for token in ([self.ids[piece]] if parse_special and piece in self.ids else piece.encode())]

    def piece(self, token: int) -> bytes:
        return bytes([token]) if 0 <= token < 256 else b""

    def is_eog(self, token: int) -> bool:
        return token == self.ids["<|im_end|>"]

    def text(self, tokens: Sequence[int]) -> str:
        """With control tokens spelt out, for assertions."""
        names = {i: name.encode() for name, i in self.ids.items()}
        return b"".join(names.get(int(token)) or self.piece(int(token)) for token in tokens).decode(errors="replace")


class FakeEngine:
    """Fulfils `relaylite.engine.interface.EngineLike`.

    `enqueue("text", …)` scripts the next answers; with none left, the answer is `fallback`.
    Speed: `prefill_delay` and `token_delay` in seconds (each can be cancelled); or clear `prefill_gate` or `token_gate` to stop
    there until the test sets it again; `in_prefill` and `in_generate` are set while the engine is inside.
    Failure: `fail("prefill" | "generate" | "harvest", error, after_tokens=n)` raises once.
    `plans` and `samplings` record what was asked for; `writer` writes, or wrote, the last answer.
    `others`: engines that were opened beside it.
    """

    def __init__(
        self,
        *,
        n_ctx: int = 4096,
        n_layer: int = 4,
        template: str = CHATML,
        relay_refusal: str | None = None,
        has_bos: bool = False,
        name: str = "fake",
    ) -> None:
        self.info = ModelInfo(
            name, "", "fake", n_layer, n_ctx, n_ctx, n_params=1000, relay_refusal=relay_refusal, kv_bytes_per_token=16 * n_layer,
            n_vocab=ByteTokenizer.N_TOKENS,
        )  # fmt: skip
        self.tokenizer = ByteTokenizer(has_bos=has_bos)
        self.layout = RowLayout((8,) * n_layer, (8,) * n_layer, f"{name}-{n_layer}")
        self.fallback = "Understood."
        self.prefill_delay = self.token_delay = 0.0
        self.prefill_gate, self.token_gate = threading.Event(), threading.Event()
        self.prefill_gate.set()
        self.token_gate.set()
        self.in_prefill, self.in_generate = threading.Event(), threading.Event()
        self.plans: list[Plan] = []
        self.samplings: list[Sampling] = []
        self.writer: FakeWriter | None = None
        self.is_closed = False
        self.others: list[FakeEngine] = []
        self._template_source = template
        self._answers: deque[str] = deque()
        self._failures: dict[str, tuple[BaseException, int]] = {}
        self._cancelled = threading.Event()
        self._empty()

    @cached_property
    def template(self) -> ChatTemplate:
        return ChatTemplate(self._template_source)

    # what a test says

    def enqueue(self, *answers: str) -> None:
        self._answers.extend(answers)

    def fail(self, where: str, error: BaseException, *, after_tokens: int = 0) -> None:
        self._failures[where] = (error, after_tokens)

    def verify(self) -> None:
        """Every row of the live sequence is of the token and at the position where it stands."""
        n = len(self._tokens)
        assert self._k.shape == self._v.shape == (self.info.n_layer, n, 2)
        assert (self._k[:, :, 0] == self._tokens).all(), "a K row of another token"
        assert (self._k[:, :, 1] == np.arange(n)).all(), "a K row at another position"
        assert (self._v[:, :, 0] == self._tokens).all(), "a V row of another token"

    def exact_rows(self) -> int:
        """How many rows, from the start, are what computing the tokens from nothing would give in every layer."""
        expected = self._contexts(0, self._tokens)
        wrong = (self._v[:, :, 1] != expected).any(axis=0)
        return int(wrong.argmax()) if wrong.any() else len(wrong)

    # the engine

    def beside(self) -> FakeEngine:
        """Writes the answers that are enqueued here, at the same speed."""
        self._check_open()
        other = FakeEngine(n_ctx=self.info.n_ctx, n_layer=self.info.n_layer, template=self._template_source, name=self.info.name)
        other.info, other.tokenizer = self.info, self.tokenizer
        other._answers, other.fallback = self._answers, self.fallback
        other.prefill_delay, other.token_delay = self.prefill_delay, self.token_delay
        other.prefill_gate, other.token_gate = self.prefill_gate, self.token_gate
        self.others.append(other)
        return other

    def prefill(self, plan: Plan, on_phase: Callable[[PhaseName], None]) -> Prefill:
        self._check_open()
        self._cancelled.clear()
        self._empty()
        if len(plan.tokens) > self.info.n_ctx:
            raise ContextOverflow(f"{len(plan.tokens)} tokens do not fit the context of {self.info.n_ctx}")
        self.plans.append(plan)
        self.in_prefill.set()
        try:
            return self._prefill(plan, on_phase)
        except BaseException:
            self._empty()
            raise
        finally:
            self.in_prefill.clear()

    def generate(self, sampling: Sampling, n_logprobs: int | None = None) -> FakeWriter:
        self._check_open()
        check_n_logprobs(n_logprobs)
        self._check_bias(sampling)
        self.samplings.append(sampling)
        answer = self._answers.popleft() if self._answers else self.fallback
        self.writer = FakeWriter(self, self.tokenizer.tokenize(answer, parse_special=False), sampling, n_logprobs)
        return self.writer

    def harvest(self, origin: str, *, heeds_cancel: bool = False) -> Rows:
        self._raise_scripted("harvest", 0)
        if heeds_cancel and self._cancelled.is_set():
            raise Cancelled("stopped")
        data = np.concatenate([self._k.ravel(), self._v.ravel()]).astype(np.int32).view(np.uint8)
        return Rows(self._tokens.copy(), 0, self._n_exact, data, self.layout, origin=origin)

    def cancel(self) -> None:
        self._cancelled.set()

    kept_states = None

    def memory(self) -> Memory:
        return self.forecast(self.info.n_ctx)

    def forecast(self, n_ctx: int) -> Memory:
        return Memory(model_bytes=1000, kv_bytes=n_ctx * self.layout.token_bytes)

    def close(self) -> None:
        self.is_closed = True

    # inside

    def _empty(self) -> None:
        self._tokens = np.empty(0, np.int32)
        self._k = np.empty((self.info.n_layer, 0, 2), np.int32)
        self._v = np.empty((self.info.n_layer, 0, 2), np.int32)
        self._n_exact = 0

    def _check_open(self) -> None:
        if self.is_closed:
            raise EngineClosed("the engine is closed; open the model again")

    def _check_bias(self, sampling: Sampling) -> None:
        banned = [token for token, bias in sampling.logit_bias if bias == -100]
        if any(token >= self.info.n_vocab for token, _ in sampling.logit_bias) or len(banned) == self.info.n_vocab:
            raise UsageError("logit_bias names a token that is not there, or bans all")

    def _raise_scripted(self, where: str, n_tokens: int) -> None:
        if where in self._failures and n_tokens >= self._failures[where][1]:
            raise self._failures.pop(where)[0]

    def _wait(self, gate: threading.Event, seconds: float) -> None:
        """Pass the gate and spend the time, unless cancelled."""
        while not gate.wait(0.002):
            self._raise_if_cancelled()
        if seconds:
            self._cancelled.wait(seconds)
        self._raise_if_cancelled()

    def _raise_if_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled("stopped")

    def _prefill(self, plan: Plan, on_phase: Callable[[PhaseName], None]) -> Prefill:
        layers = self.info.n_layer
        cells = np.full((layers, len(plan.tokens)), CellMap.NEW, np.uint8)
        deviation = np.full(len(plan.tokens), np.nan, np.float32)
        times = {"place": 0.0, "repair": 0.0, "suffix": 0.0}

        def enter(phase: PhaseName, work: Callable[[], None]) -> None:
            on_phase(phase)
            started = time.perf_counter()
            self._wait(self.prefill_gate, self.prefill_delay)
            work()
            times[phase] = (time.perf_counter() - started) * 1000

        def repair() -> None:
            for segment in plan.of(Kind.SPAN):
                deviation[segment.start : segment.end] = np.linspace(0, 1, len(segment))
                cells[1:, segment.start : segment.end : 8] = CellMap.RECOMPUTED
                self._v[1:, segment.start : segment.end : 8, 1] = self._contexts(0, plan.tokens)[segment.start : segment.end : 8]

        if plan.count(Kind.NEW) < len(plan.tokens):
            enter("place", lambda: self._fill(plan, cells))
        else:
            self._fill(plan, cells)
        if plan.policy.repairs and plan.count(Kind.SPAN):
            enter("repair", repair)
        enter("suffix", lambda: self._raise_scripted("prefill", 0))
        self.verify()
        return Prefill(times["place"], times["repair"], times["suffix"], CellMap(cells, deviation))

    def _fill(self, plan: Plan, cells: np.ndarray) -> None:
        for segment in plan.segments:
            exact_before = self._n_exact == len(self._tokens)
            if segment.rows is None:
                self._append(plan.tokens[segment.start : segment.end])
                exact = len(segment)
            else:
                self._place(segment.rows, segment.offset, len(segment), segment.rotation)
                cells[:, segment.start : segment.end] = CellMap.PREFIX if segment.kind is Kind.PREFIX else CellMap.REUSED
                exact = segment.n_exact if segment.kind is Kind.PREFIX else 0
            if exact_before:
                self._n_exact += exact

    def _place(self, rows: Rows, offset: int, n: int, delta: int) -> None:
        assert rows.layout == self.layout, "rows of another model"
        rows.bring()
        k, v = rows.data.view(np.int32).reshape(2, self.info.n_layer, len(rows), 2)[:, :, offset : offset + n]
        self._tokens = np.concatenate([self._tokens, rows.tokens[offset : offset + n]])
        self._k = np.concatenate([self._k, k + np.array([0, delta], np.int32)], axis=1)
        self._v = np.concatenate([self._v, v], axis=1)

    def _append(self, tokens: np.ndarray | Sequence[int]) -> None:
        """Compute the rows of `tokens` behind what is there."""
        start = len(self._tokens)
        last = int(self._v[0, -1, 1]) if start else 0
        new = np.asarray(tokens, np.int32)
        shape = (self.info.n_layer, len(new))
        k = np.stack([np.broadcast_to(new, shape), np.broadcast_to(np.arange(start, start + len(new)), shape)], axis=2)
        v = np.stack([np.broadcast_to(new, shape), np.broadcast_to(self._contexts(last, new), shape)], axis=2)
        self._tokens = np.concatenate([self._tokens, new])
        self._k = np.concatenate([self._k, k.astype(np.int32)], axis=1)
        self._v = np.concatenate([self._v, v.astype(np.int32)], axis=1)

    @staticmethod
    def _contexts(last: int, tokens: np.ndarray) -> np.ndarray:
        """What each token has seen: a hash of all tokens before it and itself, int32 `[n]`, going on from `last`."""
        seen = []
        for token in tokens:
            last = zlib.crc32(int(token).to_bytes(4, "little"), last) & 0x7FFFFFFF
            seen.append(last)
        return np.array(seen, np.int32)

    def _compute_one(self, token: int) -> None:
        """The row of a token that was written."""
        self._append([token])
        self._n_exact += self._n_exact == len(self._tokens) - 1


class FakeWriter(Iterator[Delta]):
    """Fulfils `relaylite.engine.interface.WriterLike`: writes the tokens of `script`, then ends without one of its own.

    The script is what a model says with probability 1/2; the next ids share the rest, 1/4, 1/8, ….
    """

    def __init__(self, engine: FakeEngine, script: Sequence[int], sampling: Sampling, n_logprobs: int | None = None) -> None:
        self.finish_reason = FINISH_CANCELLED
        self.stop = ""
        self.tokens: tuple[int, ...] = ()
        self._n_logprobs = n_logprobs
        self._engine, self._script, self._stop = engine, script, sampling.stop
        room = engine.info.n_ctx - len(engine._tokens) + 1
        self._limit = room if sampling.max_tokens < 0 else min(sampling.max_tokens, room)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text, self._n_shown = "", 0
        self._has_ended = False
        engine.in_generate.set()

    def __next__(self) -> Delta:
        if self._has_ended:
            raise StopIteration
        try:
            return self._write_one()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._has_ended = True
        self._engine.in_generate.clear()

    def _write_one(self) -> Delta:
        n = len(self.tokens)
        if n == self._limit:
            self._end(FINISH_LENGTH)
        if n:
            self._engine._compute_one(self._script[n - 1])
        if n == len(self._script):
            self._end(FINISH_STOP)
        self._engine._wait(self._engine.token_gate, self._engine.token_delay)
        self._engine._raise_scripted("generate", n)
        token = self._script[n]
        self._text += self._decoder.decode(bytes([token]), final=False)
        self.tokens += (token,)
        return Delta(self._shown(), token, *self._logprobs(token))

    def _logprobs(self, token: int) -> tuple[float | None, tuple[tuple[int, float], ...]]:
        if self._n_logprobs is None:
            return None, ()
        return log(0.5), tuple(((token + i) % ByteTokenizer.N_TOKENS, (i + 1) * log(0.5)) for i in range(self._n_logprobs))

    def _shown(self) -> str:
        """What a stop string leaves of the text, without what was shown before."""
        found = ((at, stop) for stop in self._stop if (at := self._text.find(stop)) >= 0)
        cut, self.stop = min(found, key=lambda each: each[0], default=(-1, ""))
        end = cut if cut >= 0 else len(self._text) - _held_back(self._text, self._stop)
        if cut >= 0:
            self.tokens = tuple(self._engine.tokenizer.tokenize(self._text[:cut], parse_special=False))
            self.finish_reason = FINISH_STOP
            self.close()
        shown, self._n_shown = self._text[self._n_shown : end], max(self._n_shown, end)
        return shown

    def _end(self, reason: str) -> None:
        self.finish_reason = reason
        raise StopIteration


def _held_back(text: str, stops: Sequence[str]) -> int:
    """Characters at the end that may begin a stop string."""
    return max((n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])), default=0)
