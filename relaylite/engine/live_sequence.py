"""`LiveSequence`: the tokens in the cache of one context, in order from position 0, with their rows and captured states.

Carries out what a plan says about rows. `sweep` decides which cells are recomputed, `writer` what is sampled.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from relaylite.engine import llama
from relaylite.engine.cache import Cache
from relaylite.engine.late_rows import LateRows
from relaylite.engine.native import F16, F32, Capture, Stop
from relaylite.errors import Cancelled, NativeError
from relaylite.reuse.plan import Kind, Plan, Segment
from relaylite.reuse.rows import RowLayout, Rows, Tokens, common_length

UNLIMITED = 1 << 30
ABORTED = 2  # llama_decode


class LiveSequence:
    """`cache` is None for a model whose rows cannot be placed: its sequence only goes on, or is restored (`KeptStates`).

    Rows before position `exact_until` are exact (`reuse.rows`). `n_loaders`: threads that load rows ahead while layers run. Without
    any, rows are loaded when they are placed.
    """

    def __init__(self, context: llama.Context, cache: Cache | None, capture: Capture, stop: Stop, *, n_loaders: int) -> None:
        self.tokens: list[int] = []
        self.exact_until = 0
        self.cache, self._context, self._capture, self._stop = cache, context, capture, stop
        self._states: dict[str, str] = {}
        self._n_loaders = n_loaders

    def watch(self, states: Mapping[str, str]) -> None:
        """Capture these from now on: state name in `Rows.states` → graph node. Empties the sequence."""
        self.forget()
        self._states = dict(states)
        self._capture.watch({node: self._width(node) for node in states.values()})

    def __len__(self) -> int:
        return min(self._context.length(), len(self.tokens))

    @property
    def state_bytes_per_token(self) -> int:
        """Bytes of what is captured of a token, for which the context has room."""
        return 2 * sum(self._capture.widths.values())

    # -- placing -------------------------------------------------------------------------------------------------------

    def place(self, plan: Plan, *, with_gaps: bool) -> LateRows:
        """Bring the sequence to the plan's prefix, or with gaps to all its positions. Returns the rows that are still to be written."""
        segments = plan.segments if with_gaps else [s for s in plan.segments[:1] if s.kind is Kind.PREFIX]
        end = segments[-1].end if segments else 0
        keep = self._n_kept(plan)
        self.exact_until = self._exact_after(plan, keep)
        self._truncate(keep)
        parts = [segment.within(keep, end) for segment in segments if segment.end > keep]
        for part in parts:
            self._place_states(part)
        late = [self._is_late(part) for part in parts]
        if parts:
            assert self.cache is not None
            self.cache.append([part.without_rows() if is_late else part for part, is_late in zip(parts, late, strict=True)])
        self._capture.seek(end)
        self.tokens = plan.tokens[:end].tolist()
        later = [part if is_late else part.without_rows() for part, is_late in zip(parts, late, strict=True)]
        return LateRows(self.cache, later, self._n_loaders)

    def _is_late(self, segment: Segment) -> bool:
        """Whether the rows are loaded while layers run."""
        return self._n_loaders > 0 and segment.rows is not None and not segment.rows.is_whole

    def _place_states(self, segment: Segment) -> None:
        """Note the states that were captured with the segment's rows."""
        if segment.rows is None:
            return
        for name, node in self._states.items():
            vectors = segment.rows.states.get(name)
            if vectors is not None:
                self._capture.write(node, segment.start, vectors[segment.offset : segment.offset + len(segment)])

    def _n_kept(self, plan: Plan) -> int:
        """How many leading positions stay: those of the plan's prefix that are there, but not where the plan has exact rows instead."""
        n, n_exact = _prefix_of(plan)
        n_alike = common_length(self.tokens[: len(self)], plan.tokens[:n])
        return min(n_alike, self.exact_until) if n_exact > self.exact_until else n_alike

    def _exact_after(self, plan: Plan, keep: int) -> int:
        """Up to which position rows are exact, once the plan is carried out behind the first `keep` positions."""
        n, n_exact = _prefix_of(plan)
        if keep > self.exact_until:
            return self.exact_until
        if max(keep, n_exact) < n:
            return max(keep, n_exact)
        return next((span.start for span in plan.of(Kind.SPAN)), UNLIMITED)

    def _truncate(self, position: int) -> None:
        if position == 0:
            self._context.clear()
        elif self.cache is not None:
            self.cache.truncate(position)
        self._capture.seek(position)

    def cut(self, position: int) -> None:
        """Drop positions from `position` on, if there are any; a memory that cannot be cut keeps what it holds and is longer then."""
        if self.cache is None:
            self._context.truncate(position)
        elif position < len(self.cache):
            self.cache.truncate(position)
        del self.tokens[position:]

    def restore(self, tokens: list[int], state: npt.NDArray[np.uint8]) -> None:
        """Become the sequence of these tokens, whose state was read from this context."""
        self.forget()
        if not self._context.write_state(state):
            raise NativeError(f"llama.cpp does not take back the state of {len(tokens)} tokens: {llama.last_error()}")
        self.tokens = list(tokens)

    def forget(self) -> None:
        self._context.clear()
        self.tokens, self.exact_until = [], 0

    # -- computing -----------------------------------------------------------------------------------------------------

    def compute(self, tokens: Tokens, n_batch: int | None = None) -> None:
        """Append `tokens` by llama.cpp itself, in batches of `n_batch` or as large as it takes; its logits are those behind the last."""
        size = min(n_batch or self._context.n_batch, self._context.n_batch)
        for first in range(0, len(tokens), size):
            self.decode(tokens[first : first + size].tolist())

    def decode(self, tokens: list[int], *, all_logits: bool = False) -> None:
        """Append one batch. Raises Cancelled, or NativeError with llama.cpp's reason; the sequence must be forgotten then."""
        last = len(self.tokens) + len(tokens) - 1
        watched = self.cache if len(tokens) > 1 else None
        if watched is not None:
            watched.mark(last)
        code = self._context.decode(tokens, len(self.tokens), all_logits=all_logits)
        if code == ABORTED:
            raise Cancelled("stopped")
        self.raise_if_stopped()
        if code != 0:
            where = f"{len(tokens)} tokens at position {len(self.tokens)}"
            raise NativeError(f"llama.cpp could not compute {where} (code {code}): {llama.last_error()}")
        if watched is not None:
            watched.check(last)
        self.tokens += tokens

    def raise_if_stopped(self) -> None:
        """Raises Cancelled if the stop flag is set."""
        if self._stop.is_set:
            raise Cancelled("stopped")

    # -- rows and states -----------------------------------------------------------------------------------------------

    def rows(self, layout: RowLayout, origin: str, *, heeds_stop: bool = False) -> Rows:
        """Everything that has rows, with captured states. Raises Cancelled if it `heeds_stop`."""
        n = len(self) if self.cache is not None else 0
        data = np.empty(0, np.uint8) if self.cache is None else self.cache.read(0, n, heeds_stop=heeds_stop)
        return Rows(np.array(self.tokens[:n], np.int32), 0, min(self.exact_until, n), data, layout, self.read_states(n), origin)

    def read_states(self, n: int) -> dict[str, F16]:
        """Captured vectors of the first `n` positions, float16 `[n, width]`, NaN where there are none."""
        return {name: self._capture.read(node, 0, n) for name, node in self._states.items()}

    def write_states(self, name: str, positions: Tokens, vectors: F32) -> None:
        """Set the vectors `[n, width]` of these positions (ascending)."""
        starts = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
        for start, end in zip(starts, [*starts[1:], len(positions)], strict=True):
            with np.errstate(over="ignore"):  # an infinite vector counts as none
                halves = vectors[start:end].astype(np.float16)
            self._capture.write(self._states[name], int(positions[start]), halves)

    def _width(self, node: str) -> int:
        assert self.cache is not None
        name, _, il = node.rpartition("-")
        return self.cache.layers[int(il)].n_attn if name == "kqv_out" else self.cache.info.n_embd


def _prefix_of(plan: Plan) -> tuple[int, int]:
    """Tokens of the plan's prefix, and how many of them have exact rows."""
    first = plan.segments[0]
    return (first.end, first.n_exact) if first.kind is Kind.PREFIX else (0, 0)
