"""The sweep over layers that fills a placed plan: new tokens in every layer, and of the spans the cells that the new prefix changes.

After RelayCaching (Geng et al., arXiv 2603.13289, section 4). Which tokens are selected is decided in `selection`; the layers themselves
are run by the native extension. docs/method.md says what is measured and why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from relaylite.engine.cache import Cache
from relaylite.engine.late_rows import LateRows
from relaylite.engine.native import F16, F32
from relaylite.metrics import CellMap
from relaylite.reuse import row_numbers
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.profile import RelayParameters
from relaylite.reuse.rows import Tokens
from relaylite.reuse.selection import Mask, angle, choose, score, thinned

F16_EXPONENT = np.uint16(0x7C00)  # all its bits are set in what is infinite (F16 overflows) or NaN
Pick = Callable[[Plan], Tokens]  # positions of span tokens that are computed from their ids, in every layer, whatever they deviate


@dataclass(frozen=True, slots=True)
class Active:
    """Tokens that a layer range runs for: `positions` ascending, and their hidden states `[n, n_embd]` entering it (None at layer 0)."""

    positions: Tokens
    hidden: F32 | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def merged(self, other: Active) -> Active:
        """Both, in order of position; they share no position."""
        positions = np.concatenate([self.positions, other.positions])
        order = np.argsort(positions, kind="stable")
        if self.hidden is None or other.hidden is None:
            return Active(positions[order])
        return Active(positions[order], np.concatenate([self.hidden, other.hidden])[order])

    def only(self, keep: Mask) -> Active:
        return Active(self.positions[keep], None if self.hidden is None else self.hidden[keep])


class Sweep:
    """One placed plan, from `select` (what is recomputed) to `fill` (the rows, and the logits of the last token).

    `repair`: what of the spans is recomputed; by parameters, or a pick of tokens (the benchmark's baselines), or nothing (None). `states`:
    captured vectors of the whole prompt, float16 `[n, width]`, NaN where there are none. `late`: rows that are not in their cells yet; a
    slice waits for those of its layers. `new_states` afterwards: what was seen of tokens that had none, or whose rows were recomputed.
    """

    def __init__(self, cache: Cache, plan: Plan, repair: RelayParameters | Pick | None, states: dict[str, F16], late: LateRows) -> None:
        self._cache, self._plan, self._states, self._late = cache, plan, states, late
        self._parameters = repair if isinstance(repair, RelayParameters) else None
        self._pick = None if isinstance(repair, RelayParameters) else repair
        self._n_layer = cache.info.n_layer
        self._active = Active(plan.positions(Kind.NEW))
        self._layer = 0  # that `_active` enters next
        self._rebuilt = self._active.positions  # computed from their tokens, in every layer
        self._chosen = np.empty(0, np.int32)  # span tokens recomputed from `_from_layer` on
        self._from_layer = 0
        self._deviation = np.full(len(plan.tokens), np.nan, np.float32)
        self._seen: F32 | None = None  # attention of the candidates, where that is what is compared
        self.new_states: dict[str, tuple[Tokens, F32]] = {}

    # -- stages ----------------------------------------------------------------------------------------------------------

    def select(self) -> None:
        """Run new tokens up to the layer of detection, measure the spans there, and choose whom to recompute."""
        p = self._parameters
        spans = self._plan.positions(Kind.SPAN)
        if self._pick is not None:
            self._rebuild(self._pick(self._plan))
        if p is None or not len(spans):
            return
        stateless = self._without_states(spans, p)
        self._rebuild(stateless)
        candidates = np.setdiff1d(spans, stateless)
        self._enter(p)
        if not len(candidates):
            return
        entering = Active(candidates, self._captured(f"l_in-{p.l_start}", candidates) if p.l_start else None)
        deviation, entering = self._measure(p, entering)
        self._deviation[candidates] = deviation
        chosen = choose(score(deviation, self._offsets(candidates), p.lead), p.tau, thinned(p.max_share, len(candidates), p.thinning))
        self._chosen = candidates[chosen]
        self._renew(p, chosen)
        self._active = self._active.merged(entering.only(chosen))

    def _rebuild(self, positions: Tokens) -> None:
        """Compute these span tokens from their ids, in every layer."""
        self._active = self._active.merged(Active(positions))
        self._rebuilt = self._active.positions

    def _enter(self, p: RelayParameters) -> None:
        """Bring tokens without rows to `l_start`, where the others are taken up; their attention there is noted for later relays."""
        name = f"attn-{p.l_det}"
        want = (["hidden"] if p.l_start else []) + (["attention"] if p.detector == "attention" else [])
        if not want:
            return
        got = self._run((0, p.l_start), self._active, write_end=p.l_start + 1 if "attention" in want else p.l_start, want=tuple(want))
        if "attention" in got:
            self.new_states[name] = (self._active.positions, got["attention"])
        if p.l_start:
            self._active = Active(self._active.positions, got["hidden"])
            self.new_states[f"l_in-{p.l_start}"] = (self._active.positions, got["hidden"])
        self._layer = self._from_layer = p.l_start

    def _measure(self, p: RelayParameters, entering: Active) -> tuple[F32, Active]:
        """Deviation of each candidate at `l_det`, and the candidates as they enter the next layer to run."""
        if p.detector == "attention":
            self._seen = seen = self._run((p.l_det, p.l_det), entering, write_end=p.l_det, want=("attention",))["attention"]
            return angle(seen, self._captured(f"attn-{p.l_det}", entering.positions), self._cache.layers[p.l_det].n_head), entering
        both = self._active.merged(entering)
        got = self._run((p.l_start, p.l_det), both, want=("v", "hidden"))
        is_candidate = np.isin(both.positions, entering.positions)
        both = Active(both.positions, got["hidden"])
        self._active, self._layer = both.only(~is_candidate), p.l_det
        return angle(got["v"][is_candidate], self._reused_v(p.l_det, entering.positions)), both.only(is_candidate)

    def _renew(self, p: RelayParameters, chosen: Mask) -> None:
        """What was seen of chosen tokens replaces what was captured: their rows will belong to this context."""
        if self._seen is None:
            return
        name = f"attn-{p.l_det}"
        positions, vectors = self.new_states[name]
        both = np.concatenate([positions, self._chosen])
        order = np.argsort(both, kind="stable")
        self.new_states[name] = (both[order], np.concatenate([vectors, self._seen[chosen]])[order])

    def fill(self) -> F32:
        """Rows of all active tokens to the last layer. Returns the logits of the prompt's last token, float32 `[n_vocab]`."""
        p, n = self._parameters, self._n_layer
        if p is not None and len(self._chosen) and self._layer <= p.l_end < n:
            self._advance(p.l_end)
            want = ("hidden",) if self._layer < p.l_end else ()
            got = self._run((self._layer, p.l_end), self._active, write_end=p.l_end + 1, want=want)
            is_rebuilt = np.isin(self._active.positions, self._rebuilt)
            self._active = Active(self._active.positions, got.get("hidden", self._active.hidden)).only(is_rebuilt)
            self._layer = p.l_end
        self._advance(n)
        return self._run((self._layer, n), self._active, want=("logits",))["logits"]

    def _advance(self, end: int) -> None:
        """Run the active tokens towards layer `end` as long as rows of layers before it are still to come."""
        while (stop := self._late.reach(self._layer, end)) < end:
            hidden = self._run((self._layer, stop), self._active, want=("hidden",))["hidden"]
            self._active, self._layer = Active(self._active.positions, hidden), stop

    # -- what became of the cells ------------------------------------------------------------------------------------------

    def cell_map(self) -> CellMap:
        kinds = {Kind.PREFIX: CellMap.PREFIX, Kind.SPAN: CellMap.REUSED, Kind.NEW: CellMap.NEW}
        cells = np.empty((self._n_layer, len(self._plan.tokens)), np.uint8)
        for segment in self._plan.segments:
            cells[:, segment.start : segment.end] = kinds[segment.kind]
        p = self._parameters
        spans = self._plan.positions(Kind.SPAN)
        cells[:, np.intersect1d(spans, self._rebuilt)] = CellMap.RECOMPUTED
        if p is not None and p.detector == "value" and len(spans):
            cells[p.l_start : p.l_det, spans] = CellMap.RECOMPUTED
        if p is not None and len(self._chosen):
            cells[self._from_layer : min(p.l_end + 1, self._n_layer), self._chosen] = CellMap.RECOMPUTED
        return CellMap(cells, self._deviation)

    # -- access to rows and states -------------------------------------------------------------------------------------------

    def _without_states(self, spans: Tokens, p: RelayParameters) -> Tokens:
        """Span tokens that lack a captured state: they are recomputed from their ids."""
        missing = np.zeros(len(spans), bool)
        for name in p.captures:
            exponents = self._states[name][spans].view(np.uint16) & F16_EXPONENT
            missing |= (exponents == F16_EXPONENT).any(axis=1)
        return spans[missing]

    def _offsets(self, positions: Tokens) -> Tokens:
        """Of span tokens, from the start of their span."""
        starts = np.array([span.start for span in self._plan.of(Kind.SPAN)], np.int32)
        return positions - starts[np.searchsorted(starts, positions, side="right") - 1]

    def _captured(self, name: str, positions: Tokens) -> F32:
        return self._states[name][positions].astype(np.float32)

    def _reused_v(self, layer: int, positions: Tokens) -> F32:
        width = self._cache.layers[layer].v_width
        out = np.full((len(self._plan.tokens), width), np.nan, np.float32)
        for segment in self._plan.of(Kind.SPAN):
            assert segment.match is not None
            first = segment.match.offset
            rows = segment.match.rows.v(layer)[first : first + len(segment)]
            out[segment.start : segment.end] = row_numbers.values(rows, self._cache.info.type_v)
        return out[positions]

    def _run(self, layers: tuple[int, int], active: Active, *, write_end: int | None = None, want: tuple[str, ...] = ()) -> dict[str, F32]:
        """A slice over any number of tokens, in batches by position. Results are in `active`'s order; logits are the last batch's."""
        first, end = layers
        is_probed = not {"v", "attention"}.isdisjoint(want)
        self._late.write(max(end, write_end or 0, end + is_probed))
        size = self._cache.info.n_batch
        parts: dict[str, list[F32]] = {name: [] for name in want}
        for start in range(0, len(active), size):
            is_last = start + size >= len(active)
            positions = active.positions[start : start + size]
            result = self._cache.slice(
                layers, positions, write_end=write_end,
                tokens=self._plan.tokens[positions] if first == 0 else None,
                hidden=None if active.hidden is None else active.hidden[start : start + size], is_bitwise=False,
                want=tuple(name for name in want if name != "logits" or is_last),
            )  # fmt: skip
            for name in want:
                value = getattr(result, name)
                if value is not None:
                    parts[name].append(value)
        return {name: values[-1] if name == "logits" else np.concatenate(values) for name, values in parts.items()}
