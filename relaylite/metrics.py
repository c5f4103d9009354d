"""What a turn cost and what it took over. The field names are the names in `--json`; they do not change."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from itertools import pairwise

import numpy as np
import numpy.typing as npt

FINISH_STOP = "stop"  # an end-of-generation token, a stop string, or the answer only repeated itself any more
FINISH_LENGTH = "length"  # max_tokens, or the context was full
FINISH_CANCELLED = "cancelled"


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._started = self._lap = time.perf_counter()

    def ms(self) -> float:
        """Milliseconds since it was made."""
        return (time.perf_counter() - self._started) * 1e3

    def lap_ms(self) -> float:
        """Milliseconds since the last lap ended, or since it was made."""
        ended, self._lap = self._lap, time.perf_counter()
        return (self._lap - ended) * 1e3


@dataclass(slots=True)
class TtftParts:
    """Milliseconds of the time to first token, by stage: `rectify` is repair, the name that `--json` has had from the start."""

    render: float = 0.0
    place: float = 0.0
    rectify: float = 0.0
    suffix: float = 0.0
    sample: float = 0.0

    @property
    def total(self) -> float:
        return self.render + self.place + self.rectify + self.suffix + self.sample


STAGES = tuple(field.name for field in fields(TtftParts))  # of the time to first token, in order


@dataclass(slots=True)
class TurnMetrics:
    """Counts are tokens of the prompt unless said otherwise.

    `prefix_tokens + span_tokens + computed_tokens == prompt_tokens`. `reuse_ratio`: of the spans' (token, layer) cells, the
    share taken over unchanged, in [0, 1] (0 without spans). `prompt_reuse`: the same over all cells of the prompt.
    `recomputed_tokens`: span tokens that were recomputed in at least one layer.
    """

    prompt_tokens: int = 0
    prefix_tokens: int = 0
    span_tokens: int = 0
    computed_tokens: int = 0
    recomputed_tokens: int = 0
    reuse_ratio: float = 0.0
    prompt_reuse: float = 0.0
    ttft_ms: float = 0.0
    ttft_parts_ms: TtftParts = field(default_factory=TtftParts)
    generated_tokens: int = 0
    decode_tokens_per_s: float = 0.0
    context_used: int = 0
    context_size: int = 0
    full_ttft_estimate_ms: float = 0.0  # computing the whole prompt; 0 while no speed is known
    full_ttft_low_ms: float = 0.0  # eight of ten measured times should lie within low and high
    full_ttft_high_ms: float = 0.0
    prefix_ttft_estimate_ms: float = 0.0  # computing all that follows the prefix: what taking over the prefix alone would take
    prefix_ttft_low_ms: float = 0.0
    prefix_ttft_high_ms: float = 0.0

    @property
    def saved_ms(self) -> float:
        """Time to first token that relaying saved beyond taking over the prefix, as estimated; 0 if nothing was relayed or is known.

        Below 0 where relaying took longer.
        """
        return self.prefix_ttft_estimate_ms - self.ttft_ms if self.span_tokens and self.prefix_ttft_estimate_ms else 0.0

    @property
    def full_error(self) -> float:
        """How far a measured time may lie from `full_ttft_estimate_ms`, as a share of it; 0 where that is not known."""
        return _error(self.full_ttft_estimate_ms, self.full_ttft_low_ms, self.full_ttft_high_ms)

    @property
    def prefix_error(self) -> float:
        """The same of `prefix_ttft_estimate_ms`."""
        return _error(self.prefix_ttft_estimate_ms, self.prefix_ttft_low_ms, self.prefix_ttft_high_ms)

    @property
    def recomputed_share(self) -> float:
        """Of the relayed tokens, the share that was recomputed in at least one layer; 0 without any."""
        return self.recomputed_tokens / self.span_tokens if self.span_tokens else 0.0

    @property
    def is_context_full(self) -> bool:
        """Prompt and answer fill the context: an answer that was cut was cut by that, not by max tokens."""
        return self.context_used >= self.context_size > 0


def _error(ms: float, low_ms: float, high_ms: float) -> float:
    return max(high_ms - ms, ms - low_ms) / ms if ms and high_ms else 0.0


@dataclass(frozen=True, slots=True)
class CellMap:
    """What became of every (layer, token) cell of a prompt, for pictures and for `reuse_ratio`.

    `cells`: uint8 `[n_layer, n]` with the codes below; `deviation`: float32 `[n]`, NaN where none was measured.
    """

    PREFIX = 0
    REUSED = 1
    RECOMPUTED = 2
    NEW = 3

    cells: npt.NDArray[np.uint8]
    deviation: npt.NDArray[np.float32]

    @property
    def recomputed_tokens(self) -> int:
        """Span tokens that were recomputed in at least one layer."""
        return int((self.cells == self.RECOMPUTED).any(axis=0).sum())

    @property
    def reuse_ratio(self) -> float:
        """Of the spans' cells, the share taken over unchanged; 0 without spans."""
        reused, recomputed = int((self.cells == self.REUSED).sum()), int((self.cells == self.RECOMPUTED).sum())
        return reused / (reused + recomputed) if reused + recomputed else 0.0

    @property
    def prompt_reuse(self) -> float:
        """Of all cells, the share taken over unchanged."""
        return float((self.cells <= self.REUSED).mean()) if self.cells.size else 0.0

    def _repr_html_(self) -> str:
        """A picture for notebooks: layers up, positions across. Of a long prompt, each of 256 columns shows its commonest cells."""
        n_layer, n = self.cells.shape
        if not n:
            return f"<div>{n_layer} layers, no tokens</div>"
        is_kind = np.stack([self.cells == kind for kind in range(len(_KINDS))], axis=2).astype(np.int32)
        starts = np.unique(np.linspace(0, n, 256, endpoint=False).astype(np.int64))
        drawn = np.add.reduceat(is_kind, starts, axis=1).argmax(axis=2)
        rects = (
            f'<rect x="{start}" y="{n_layer - 1 - layer}" width="{end - start}" height="1" fill="{_KINDS[kind][1]}"/>'
            for layer, row in enumerate(drawn)
            for kind, start, end in _stretches(row)
        )
        shares = zip(_KINDS, is_kind.mean(axis=(0, 1)), strict=True)
        legend = " ".join(f'<span style="color:{color}">■</span> {name} {share:.0%}' for (name, color), share in shares)
        return (
            f'<div><div>{n_layer} layers, {n} tokens: {legend}</div><svg role="img" aria-label="cell map" '
            f'viewBox="0 0 {len(starts)} {n_layer}" preserveAspectRatio="none" shape-rendering="crispEdges" '
            f'style="width:100%;height:{4 * n_layer}px">{"".join(rects)}</svg></div>'
        )


_KINDS = (("prefix", "#9aa0a6"), ("relayed", "#4c8dd6"), ("recomputed", "#e8912d"), ("new", "#4caf50"))  # in the order of CellMap's codes


def _stretches(row: npt.NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """(value, start, end) of the equal values that follow one another."""
    edges = [0, *(np.flatnonzero(np.diff(row)) + 1).tolist(), len(row)]
    return [(int(row[start]), start, end) for start, end in pairwise(edges)]
