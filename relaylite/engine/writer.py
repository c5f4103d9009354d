"""`Writer`: one answer as it is sampled: tokens from llama.cpp's samplers, text that may be shown, and why it ended."""

from __future__ import annotations

import time
from collections.abc import Generator

from relaylite.engine import llama
from relaylite.engine.interface import Delta
from relaylite.engine.live_sequence import LiveSequence
from relaylite.engine.native import F32, Stop
from relaylite.engine.text_stream import TextStream
from relaylite.errors import Cancelled
from relaylite.metrics import FINISH_CANCELLED, FINISH_LENGTH, FINISH_STOP
from relaylite.sampling import Sampling


class Writer:
    """Goes on behind the live sequence. A token's row is computed when the next token is wanted, so the last one has none."""

    def __init__(self, sequence: LiveSequence, context: llama.Context, vocab: llama.Vocab, stop: Stop, sampling: Sampling) -> None:
        self.finish_reason = FINISH_CANCELLED
        self._sequence, self._context, self._vocab, self._stop = sequence, context, vocab, stop
        self._sampling = sampling
        self._n_prompt = len(sequence.tokens)
        self._text = TextStream(sampling.stop)
        self._sampled: list[int] = []

    @property
    def tokens(self) -> tuple[int, ...]:
        """Ids that can be relayed: no end-of-generation token, nothing behind a stop string."""
        return tuple(self._sampled[: self._text.n_kept] if self._text.is_stopped else self._sampled)

    def deltas(self, logits: F32 | None) -> Generator[Delta, None, None]:
        """`logits`: those of the prompt's last token if llama.cpp does not hold them. Raises Cancelled when the stop flag is set; the rows
        of what was given out are kept then too."""
        sampler = llama.Sampler(self._sampling, self._vocab.n_tokens)
        try:
            if self._sampling.repeat_penalty != 1.0:
                for token in self._sequence.tokens[-llama.Sampler.PENALTY_LAST_N :]:
                    sampler.accept(token)
            yield from self._write(sampler, logits)
        finally:
            sampler.close()
            if self._context.is_open:
                self._sequence.cut(self._n_prompt + len(self.tokens))

    def _write(self, sampler: llama.Sampler, logits: F32 | None) -> Generator[Delta, None, None]:
        while not self._is_full():
            if self._sampled and len(self._sequence.tokens) < self._n_prompt + len(self._sampled):
                self._sequence.decode(self._sampled[-1:])
            self._check_stop()
            started = time.perf_counter()
            token = sampler.sample(self._context) if logits is None else sampler.sample_from(logits)
            sample_ms = (time.perf_counter() - started) * 1e3
            logits = None
            if self._vocab.is_eog(token):
                self.finish_reason = FINISH_STOP
                yield Delta(self._text.finish(), token, sample_ms)
                return
            self._sampled.append(token)
            shown = self._text.feed(self._vocab.piece(token))
            if self._text.is_stopped:
                self.finish_reason = FINISH_STOP
                yield Delta(shown, token, sample_ms)
                return
            if self._is_full():
                self.finish_reason = FINISH_LENGTH
                shown += self._text.finish()
            yield Delta(shown, token, sample_ms)
        self.finish_reason = FINISH_LENGTH

    def _is_full(self) -> bool:
        n = len(self._sampled)
        return n == self._sampling.max_tokens or self._n_prompt + n >= self._context.n_ctx

    def _check_stop(self) -> None:
        if self._stop.is_set:
            raise Cancelled("stopped")
