"""The seam of the model: what a chain asks of an engine, as plain values and one protocol.

`relaylite.engine.engine.Engine` fulfils it with llama.cpp, `tests/support/fakes.py` with scripted answers. Nothing here imports either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from relaylite.events import PhaseName
from relaylite.metrics import CellMap
from relaylite.reuse.plan import Plan
from relaylite.reuse.rows import RowLayout, Rows

if TYPE_CHECKING:
    from relaylite.prompt.template import ChatTemplate
    from relaylite.prompt.tokenizer import Tokenizer
    from relaylite.reuse.planner import Matcher
    from relaylite.sampling import Sampling


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a loaded model. `relay_refusal` says in one line why spans cannot be relayed, None if they can."""

    name: str
    path: str
    architecture: str
    n_layer: int
    n_ctx: int
    n_ctx_train: int
    n_params: int
    relay_refusal: str | None = None
    n_embd: int = 0
    n_head: int = 0
    n_head_kv: int = 0
    n_vocab: int = 0
    file_bytes: int = 0
    kv_bytes_per_token: int = 0
    quantization: str = ""
    adapters: tuple[str, ...] = ()  # LoRA files in force, `FILE:SCALE` each
    prefix_reuse: str = "rows of the store"  # what prompts that begin alike go on from
    warnings: tuple[str, ...] = ()  # one line each: a context beyond the trained one, …


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes held; `kv_bytes` with the states of recurrent layers. `Relay.memory()` adds those of its store and of the process."""

    model_bytes: int = 0
    kv_bytes: int = 0
    compute_bytes: int = 0
    capture_bytes: int = 0
    store_bytes: int = 0
    resident_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Prefill:
    """What placing a plan took, and what became of its cells."""

    place_ms: float
    repair_ms: float
    suffix_ms: float
    cells: CellMap


@dataclass(frozen=True, slots=True)
class Delta:
    """One sampled token, and the text that may be shown now.

    `text` is whole characters. It is "" while characters are held back that may become a stop string, or are not finished.
    """

    text: str
    token: int


class WriterLike(Iterator[Delta], Protocol):
    """One answer while it is written: gives a `Delta` for each token, and ends when the answer ends.

    A token's row is computed when the next token is wanted, so the last token of an answer has no row. The iterator raises Cancelled
    after `EngineLike.cancel`. `finish_reason` and `tokens` are right at any time, also after an error or when half read.
    `finish_reason`: "stop" or "length" once the answer has ended, "cancelled" before (`metrics` has the words).
    """

    finish_reason: str

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
    """One model, one live sequence, one thread at a time (except `cancel`).

    `prefill` first forgets an earlier `cancel`, then replaces the live sequence by the plan's; it calls `on_phase` as it enters
    "place", "repair" and "suffix" (those that happen; always "suffix"), and what `on_phase` raises passes through.
    `generate` goes on from there.
    `prefill` raises Damaged if rows of the plan cannot be used after all: the store that gave them forgets them, and another plan is made.
    After any error the engine can be used again: the next `prefill` starts from an empty sequence.
    """

    info: ModelInfo
    tokenizer: Tokenizer
    template: ChatTemplate
    layout: RowLayout

    @property
    def kept_states(self) -> Matcher | None:
        """Finds what a prompt may go on from in the engine itself, None where rows can be placed and a store finds them."""
        ...

    def prefill(self, plan: Plan, on_phase: Callable[[PhaseName], None]) -> Prefill:
        """Place, repair and compute `plan`; afterwards the logits of its last token are ready."""
        ...

    def generate(self, sampling: Sampling) -> WriterLike:
        """Write an answer behind the live sequence. One at a time: the next `prefill` puts an end to it."""
        ...

    def harvest(self, origin: str, *, heeds_cancel: bool = False) -> Rows:
        """Rows of everything in the live sequence: the prompt and the answer, without an answer's last token if that has no row.

        A cancel does not end it, unless it `heeds_cancel`: it may come behind a cancelled answer. A gigabyte takes .4 s.
        """
        ...

    def cancel(self) -> None:
        """From any thread: the running call raises Cancelled within 1 s; without one, the next token does."""
        ...

    def memory(self) -> Memory: ...

    def forecast(self, n_ctx: int) -> Memory:
        """What the model would take with a context of so many tokens."""
        ...

    def close(self) -> None: ...
