"""`Writer`: one answer, sampled token by token: which tokens are kept, what text may be shown, and why it ended."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

from relaylite.engine import llama
from relaylite.engine.interface import Delta, check_n_logprobs
from relaylite.engine.live_sequence import LiveSequence
from relaylite.engine.native import F32
from relaylite.engine.text_stream import TextStream
from relaylite.metrics import FINISH_CANCELLED, FINISH_LENGTH, FINISH_STOP
from relaylite.sampling import Sampling

Logprobs = tuple[float | None, tuple[tuple[int, float], ...]]


class Writer(Iterator[Delta]):
    """Fulfils `interface.WriterLike` behind the live sequence."""

    def __init__(
        self,
        sequence: LiveSequence,
        context: llama.Context,
        vocab: llama.Vocab,
        sampling: Sampling,
        logits: F32 | None = None,
        *,
        n_logprobs: int | None = None,
    ) -> None:
        """`logits`: those of the prompt's last token, float32 `[n_vocab]`; None if llama.cpp holds them."""
        check_n_logprobs(n_logprobs)
        self.finish_reason = FINISH_CANCELLED
        self._n_logprobs = n_logprobs
        self._sequence, self._context, self._vocab, self._sampling, self._logits = sequence, context, vocab, sampling, logits
        self._n_prompt = len(sequence.tokens)
        self._text = TextStream(sampling.stop)
        self._sampled: list[int] = []
        self._has_ended = False
        self._sampler = llama.Sampler(sampling, vocab, context.n_ctx)
        self._free = weakref.finalize(self, self._sampler.close)
        self._free.atexit = False  # the process's memory goes with it
        self._sampler.hear(sequence.tokens)
        if self._is_full():
            self._end(FINISH_LENGTH)

    def __next__(self) -> Delta:
        """Sample a token, keep it, show the text that it frees."""
        if self._has_ended:
            raise StopIteration
        token, logprobs = self._sample()
        if self._vocab.is_eog(token):
            return Delta(self._end(FINISH_STOP), token, *logprobs)
        shown = self._keep(token)
        if self._text.is_stopped:
            shown += self._end(FINISH_STOP)
            self._sequence.cut(self._n_prompt + len(self.tokens))
        elif self._is_full():
            shown += self._end(FINISH_LENGTH)
        return Delta(shown, token, *logprobs)

    @property
    def stop(self) -> str:
        """The stop string that ended the answer, "" for none."""
        return self._text.stopped_by

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(self._sampled[: self._text.n_kept] if self._text.is_stopped else self._sampled)

    def close(self) -> None:
        self._has_ended = True
        self._free()

    def _sample(self) -> tuple[int, Logprobs]:
        """The next token, once the row of the one before it is computed."""
        if len(self._sequence.tokens) < self._n_prompt + len(self._sampled):
            self._sequence.decode(self._sampled[-1:])
        self._sequence.raise_if_stopped()
        logits, self._logits = self._logits, None
        token = self._sampler.sample(self._context) if logits is None else self._sampler.sample_from(logits)
        if self._n_logprobs is None:
            return token, (None, ())
        return token, llama.logprob_of(self._context.logits_in_place() if logits is None else logits, token, self._n_logprobs)

    def _keep(self, token: int) -> str:
        """The text that may be shown now."""
        self._sampled.append(token)
        return self._text.feed(self._vocab.piece(token))

    def _is_full(self) -> bool:
        n = len(self._sampled)
        return n == self._sampling.max_tokens or self._n_prompt + n >= self._context.n_ctx

    def _end(self, finish_reason: str) -> str:
        """The text that was still held back."""
        self.finish_reason = finish_reason
        self.close()
        return self._text.finish()
