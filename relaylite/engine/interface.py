"""The seam of the model: what a chain asks of an engine, as plain values and one protocol.

`relaylite.engine.engine.Engine` fulfils it with llama.cpp, `tests/support/fakes.py` with scripted answers. Nothing here imports either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from relaylite.errors import UsageError
from relaylite.events import PhaseName
from relaylite.metrics import CellMap
from relaylite.reuse.plan import Plan
from relaylite.reuse.rows import RowLayout, Rows

if TYPE_CHECKING:
    from relaylite.prompt.template import ChatTemplate
    from relaylite.prompt.tokenizer import Tokenizer
    from relaylite.reuse.planner import Matcher
    from relaylite.sampling import Sampling


MAX_LOGPROBS = 20


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a loaded model. Numbers are those of the file unless said otherwise."""

    name: str  # of the file, without .gguf
    path: str
    architecture: str  # as llama.cpp names it: llama, qwen3, …
    n_layer: int
    n_ctx: int  # tokens of the context as it was made: what was asked for, rounded up
    n_ctx_train: int  # tokens of the longest context that the model was trained for
    n_params: int
    relay_refusal: str | None = None  # why spans cannot be relayed, in one line; None if they can
    n_embd: int = 0
    n_head: int = 0
    n_head_kv: int = 0
    n_vocab: int = 0
    file_bytes: int = 0  # of the first file, of a model in parts
    kv_bytes_per_token: int = 0  # in the cache, all layers together
    quantization: str = ""  # type of most weights, such as Q4_K - Medium
    adapters: tuple[str, ...] = ()  # LoRA files in force, `FILE:SCALE` each
    prefix_reuse: str = "rows of the store"  # what prompts that begin alike go on from, in words
    warnings: tuple[str, ...] = ()  # one line each: a context beyond the trained one, …


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes held. An engine fills in all but `resident_bytes`; its `store_bytes` are those of its kept states.

    `Relay.memory` adds the rows of its store to `store_bytes`, and `resident_bytes`: the whole process in memory, mapped weights included.
    """

    model_bytes: int = 0  # weights, adapters included
    kv_bytes: int = 0  # the cache, with the states of recurrent layers
    compute_bytes: int = 0  # llama.cpp's buffers for one batch
    capture_bytes: int = 0  # room for the hidden states that are captured while decoding
    store_bytes: int = 0
    resident_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Prefill:
    """What a prefill took, in milliseconds by stage, and what became of the cells of its prompt."""

    place_ms: float  # rows into the cache
    repair_ms: float  # selecting the span tokens to recompute, with the layers that this needs; 0 without spans
    suffix_ms: float  # computing the new tokens and recomputing the selected ones
    cells: CellMap


@dataclass(frozen=True, slots=True)
class Delta:
    """One sampled token, and the text that may be shown now.

    `text` is whole characters. It is "" while characters are held back that may become a stop string, or are not finished.
    `logprob`: natural logarithm of the token's probability as the model gave it, before penalties, bias and temperature; `top`: the
    likeliest tokens with theirs, the likeliest first. None and empty unless they were asked for.
    """

    text: str
    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


def check_n_logprobs(n: int | None) -> None:
    """Raises UsageError unless `n` is None or a number of likeliest tokens that may be asked for."""
    if n is not None and (isinstance(n, bool) or not 0 <= n <= MAX_LOGPROBS):
        raise UsageError(f"the number of log probabilities must be from 0 to {MAX_LOGPROBS}, not {n!r}")


class WriterLike(Iterator[Delta], Protocol):
    """One answer while it is written: gives a `Delta` for each token, and ends when the answer ends.

    A token's row is computed when the next token is wanted, so the last token has no row unless the model ended the answer. The
    iterator raises Cancelled after `EngineLike.cancel`. `finish_reason` and `tokens` are right at any time, also after an error or
    when half read.
    `finish_reason`: "stop" or "length" once the answer has ended, "cancelled" before (`metrics` has the words).
    `stop`: the stop string that ended the answer, "" for none.
    """

    finish_reason: str

    @property
    def stop(self) -> str: ...

    @property
    def tokens(self) -> tuple[int, ...]:
        """The ids that can be relayed: no end-of-generation token, nothing from a stop string on.

        The last ones may be the first bytes of a character that was cut.
        """
        ...

    def close(self) -> None:
        """End the answer here, if it has not ended, and free what it holds. The tokens and their rows stay."""
        ...


class EngineLike(Protocol):
    """One model with one live sequence: the tokens whose rows are in the cache, from position 0 on.

    Used by one thread at a time; only `cancel` and the `tokenizer` may be called from others meanwhile. A turn calls `prefill`, then
    `generate`, then `harvest`.
    Every method but `cancel` and `close` raises EngineClosed after `close`. After any other error the engine can be used again: the next
    `prefill` starts from an empty sequence.
    """

    @property
    def info(self) -> ModelInfo: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def template(self) -> ChatTemplate: ...

    @property
    def layout(self) -> RowLayout:
        """Of the rows that `harvest` gives and `prefill` takes. Rows of another layout are refused."""
        ...

    @property
    def kept_states(self) -> Matcher | None:
        """Finds what a prompt may go on from in the engine itself. None where rows can be placed: a store finds them."""
        ...

    def beside(self) -> EngineLike:
        """Another engine on the same weights, with a live sequence and a cache of its own.

        It is of the same layout, and must be closed before this one. Both may not compute at the same time in two threads.
        Raises ModelError if there is no memory for it.
        """
        ...

    def prefill(self, plan: Plan, on_phase: Callable[[PhaseName], None]) -> Prefill:
        """Forget an earlier `cancel`, then make the live sequence the plan's. The logits of its last token are ready afterwards.

        `on_phase` is called on entering "place", "repair" (with spans only) and "suffix", in this order; what it raises comes out.
        Raises ContextOverflow if prompt and one answer token do not fit, UsageError for spans where `info.relay_refusal` says why not,
        ModelError for rows of another layout, and Damaged if rows cannot be read after all: the store that gave them forgets them, and
        another plan is made. Raises Cancelled after `cancel`; if the plan had no spans, `harvest` gives what was computed until then.
        """
        ...

    def generate(self, sampling: Sampling, n_logprobs: int | None = None) -> WriterLike:
        """Write an answer behind the live sequence. One at a time: the next `prefill` puts an end to it.

        `n_logprobs`: each `Delta` carries its token's log probability and those of so many likeliest tokens (0 to `MAX_LOGPROBS`).
        Raises UsageError for another number, and if `sampling.logit_bias` names a token that the vocabulary lacks or bans all tokens.
        """
        ...

    def harvest(self, origin: str, *, heeds_cancel: bool = False) -> Rows:
        """A copy of all rows of the live sequence: the prompt and the answer, without the answer's last token if that has no row.

        `origin`: whose turn they are of, an agent's name, or "" for none. After a cancelled answer they can be had too: a cancel ends the
        copying only if it `heeds_cancel`, with Cancelled. A gigabyte takes 0.4 s.
        """
        ...

    def cancel(self) -> None:
        """From any thread: the running call raises Cancelled within 1 s; without one, the next token does."""
        ...

    def memory(self) -> Memory:
        """Bytes held now."""
        ...

    def forecast(self, n_ctx: int) -> Memory:
        """Bytes that this model would hold with a context of `n_ctx` tokens. Raises ModelError if llama.cpp would refuse it."""
        ...

    def close(self) -> None:
        """Free the model. Must not be called while another thread uses the engine; a second time it does nothing."""
        ...
