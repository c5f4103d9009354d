"""The sweep over layers that fills a placed plan: new tokens in every layer, and of relayed tokens the cells that the new text before
them changes.

After RelayCaching (Geng et al., arXiv 2603.13289, section 4); docs/method.md names the steps, and says what is measured and why.
`selection` decides which tokens are selected; the native extension runs the layers.
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
from relaylite.reuse.profile import Detector, RelayParameters
from relaylite.reuse.rows import Mask, Tokens, is_finite
from relaylite.reuse.selection import angle, score, select, thinned, weighted

OF_LAST_BATCH = ("logits", "mass")  # results that are not one for each token
N_READERS = 32  # last new tokens whose attention is asked for, at most
ForcedSelection = Callable[[Plan], Tokens]  # positions of span tokens to compute from their ids, whatever their deviation


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


@dataclass(frozen=True, slots=True)
class Probe:
    """What was measured of the span tokens that may be selected, `[n]`.

    `deviation`: float32, from what was captured. `entering`: the tokens as they enter the next layer to run. `attention`: their attention
    output in the new context, float32 `[n, n_attn]`, None if V was compared.
    """

    deviation: F32
    entering: Active
    attention: F32 | None = None


class Sweep:
    """One placed plan: `select` decides what is recomputed, `fill` computes the rows and the logits of the last token.

    The shipped profile and the default one take the same path: the attention detector, and `l_end` = n_layer. `select` runs new tokens to
    `l_start` (`_run_to_start`), probes the span tokens (`_probe_attention`) and selects some of them (`_select_by`). `fill` runs all of
    these to the end. The methods stand in this order. A profile measured elsewhere may have the value detector (`_probe_values`), or an
    `l_end` before the last layer (`_run_selected_to`).

    `repair` says which cells of the spans are recomputed: RelayParameters, a ForcedSelection (the benchmark's baselines), or None for none.
    `states`: captured vectors of the whole prompt by name, float16 `[n, width]`, NaN where there are none. `late`: rows that are not in
    their cells yet; a slice waits for those of its layers. Afterwards `new_states` holds, by name, positions and vectors of tokens that had
    no state, or whose rows were recomputed.
    """

    def __init__(
        self, cache: Cache, plan: Plan, repair: RelayParameters | ForcedSelection | None, states: dict[str, F16], late: LateRows
    ) -> None:
        self._cache, self._plan, self._states, self._late = cache, plan, states, late
        self._parameters = repair if isinstance(repair, RelayParameters) else None
        self._forced = None if isinstance(repair, RelayParameters) else repair
        self._n_layer = cache.info.n_layer
        self._active = Active(plan.positions(Kind.NEW))
        self._layer = 0  # that `_active` enters next
        self._whole = self._active.positions  # computed from their ids, in every layer
        self._selected = np.empty(0, np.int32)  # span tokens recomputed from `_first_layer` on
        self._first_layer = 0
        self._deviation = np.full(len(plan.tokens), np.nan, np.float32)
        self._mass: F32 | None = None  # float32 `[n]`, attention of the suffix at `l_det` to each position
        self.new_states: dict[str, tuple[Tokens, F32]] = {}

    # -- select: steps 2 to 4 of docs/method.md -----------------------------------------------------------------------------

    def select(self) -> None:
        """Run new tokens up to `l_start`, probe the span tokens, and select those that deviate most."""
        p, spans = self._parameters, self._plan.positions(Kind.SPAN)
        if self._forced is not None:
            self._compute_whole(self._forced(self._plan))
        if p is None or not len(spans):
            return
        stateless = self._without_states(spans, p)
        self._compute_whole(stateless)
        self._run_to_start(p)
        candidates = np.setdiff1d(spans, stateless)
        if len(candidates):
            self._select_by(self._probe(candidates, p), candidates, p)

    def _without_states(self, spans: Tokens, p: RelayParameters) -> Tokens:
        """Span tokens that lack a captured state."""
        has_all = np.ones(len(spans), bool)
        for name in p.captures:
            has_all &= is_finite(self._states[name][spans])
        return spans[~has_all]

    def _compute_whole(self, positions: Tokens) -> None:
        """Compute these span tokens from their ids, in every layer, as new tokens are."""
        self._active = self._active.merged(Active(positions))
        self._whole = self._active.positions

    def _run_to_start(self, p: RelayParameters) -> None:
        """Step 2, new tokens: run them to `l_start`. Their states there, and their attention, are noted for later relays."""
        want = (["hidden"] if p.l_start else []) + (["attention", *self._mass_of(p)] if p.detector == "attention" else [])
        if not want:
            return
        write_end = p.l_start + 1 if p.detector == "attention" else p.l_start
        got = self._run((0, p.l_start), self._active, write_end=write_end, want=tuple(want))
        self._mass = got.get("mass")
        if "attention" in got:
            self.new_states[f"attn-{p.l_det}"] = (self._active.positions, got["attention"])
        if p.l_start:
            self._active = Active(self._active.positions, got["hidden"])
            self.new_states[f"l_in-{p.l_start}"] = (self._active.positions, got["hidden"])
        self._layer = self._first_layer = p.l_start

    def _probe(self, candidates: Tokens, p: RelayParameters) -> Probe:
        """Step 3, probe: how far the candidates deviate at `l_det` from what was captured."""
        entering = Active(candidates, self._captured(f"l_in-{p.l_start}", candidates) if p.l_start else None)
        return PROBES[p.detector](self, entering, p)

    def _probe_attention(self, entering: Active, p: RelayParameters) -> Probe:
        """Only the attention of layer `l_det`, which is `l_start`, over the new context."""
        attention = self._run((p.l_det, p.l_det), entering, write_end=p.l_det, want=("attention",))["attention"]
        captured = self._captured(f"attn-{p.l_det}", entering.positions)
        return Probe(angle(attention, captured, self._cache.layers[p.l_det].n_head), entering, attention)

    def _select_by(self, probe: Probe, candidates: Tokens, p: RelayParameters) -> None:
        """Step 4, select: the candidates of the highest scores run on together with the new tokens."""
        self._deviation[candidates] = probe.deviation
        scores = score(probe.deviation, self._offsets(candidates), p.lead)
        if self._mass is not None:
            scores = weighted(scores, self._mass[candidates], p.attended)
        is_selected = select(scores, p.tau, thinned(p.max_share, len(candidates), p.thinning))
        self._selected = candidates[is_selected]
        self._active = self._active.merged(probe.entering.only(is_selected))
        if probe.attention is not None:
            self._note_attention(f"attn-{p.l_det}", probe.attention[is_selected])

    def _mass_of(self, p: RelayParameters) -> tuple[str, ...]:
        """The attention of the prompt's last new tokens to all others, if selecting asks for it.

        A layer with a window shows nothing of what lies beyond it, so none that is shorter than the prompt is asked.
        """
        sees_all = not 0 < self._cache.layers[p.l_det].n_window < len(self._plan.tokens)
        return ("mass",) if p.attended and sees_all else ()

    def _note_attention(self, name: str, vectors: F32) -> None:
        """What the probe saw of selected tokens replaces what was captured: their rows will belong to this context."""
        new = self.new_states[name]
        positions = np.concatenate([new[0], self._selected])
        order = np.argsort(positions, kind="stable")
        self.new_states[name] = (positions[order], np.concatenate([new[1], vectors])[order])

    # -- fill: step 5 ------------------------------------------------------------------------------------------------------

    def fill(self) -> F32:
        """Compute the rows of all active tokens to the last layer. Returns the logits of the last token, float32 `[n_vocab]`.

        In the last layer the graph itself goes on behind attention with the last token alone (`out_ids` in native/slice/inputs.cpp).
        """
        p = self._parameters
        if p is not None and len(self._selected) and self._layer <= p.l_end < self._n_layer:
            self._run_selected_to(p.l_end)
        self._advance(self._n_layer)
        return self._run((self._layer, self._n_layer), self._active, want=("logits",))["logits"]

    def _advance(self, end: int) -> None:
        """Run the active tokens towards layer `end` as long as rows of layers before it are still to come."""
        while (stop := self._late.reach(self._layer, end)) < end:
            hidden = self._run((self._layer, stop), self._active, want=("hidden",))["hidden"]
            self._active, self._layer = Active(self._active.positions, hidden), stop

    # -- beside the shipped path: the value detector, and an l_end before the last layer -----------------------------------

    def _probe_values(self, entering: Active, p: RelayParameters) -> Probe:
        """The paper's way: all tokens run from `l_start` to `l_det`, where V of the candidates is compared.

        Their rows of `l_det` are at hand and written too, so that attention there (`mass`) sees no slot that is still to be filled.
        """
        both = self._active.merged(entering)
        got = self._run((p.l_start, p.l_det), both, write_end=p.l_det + 1, want=("v", "hidden", *self._mass_of(p)))
        self._mass = got.get("mass")
        is_candidate = np.isin(both.positions, entering.positions)
        both = Active(both.positions, got["hidden"])
        self._active, self._layer = both.only(~is_candidate), p.l_det
        deviation = angle(got["v"][is_candidate], self._reused_v(p.l_det, entering.positions))
        return Probe(deviation, both.only(is_candidate))

    def _reused_v(self, layer: int, positions: Tokens) -> F32:
        """V of these span tokens as their rows hold it, float32 `[n, v_width]`."""
        width = self._cache.layers[layer].v_width
        out = np.full((len(self._plan.tokens), width), np.nan, np.float32)
        for span in self._plan.of(Kind.SPAN):
            assert span.rows is not None
            rows = span.rows.v(layer)[span.offset : span.offset + len(span)]
            out[span.start : span.end] = row_numbers.values(rows, self._cache.info.type_v)
        return out[positions]

    def _run_selected_to(self, l_end: int) -> None:
        """Run all active tokens to layer `l_end`. There the selected ones write K and V, and end."""
        self._advance(l_end)
        want = ("hidden",) if self._layer < l_end else ()
        got = self._run((self._layer, l_end), self._active, write_end=l_end + 1, want=want)
        goes_on = np.isin(self._active.positions, self._whole)
        self._active = Active(self._active.positions, got.get("hidden", self._active.hidden)).only(goes_on)
        self._layer = l_end

    # -- what became of the cells ------------------------------------------------------------------------------------------

    def cell_map(self) -> CellMap:
        """What became of every cell, once all is filled."""
        kinds = {Kind.PREFIX: CellMap.PREFIX, Kind.SPAN: CellMap.REUSED, Kind.NEW: CellMap.NEW}
        cells = np.empty((self._n_layer, len(self._plan.tokens)), np.uint8)
        for segment in self._plan.segments:
            cells[:, segment.start : segment.end] = kinds[segment.kind]
        p, spans = self._parameters, self._plan.positions(Kind.SPAN)
        cells[:, np.intersect1d(spans, self._whole)] = CellMap.RECOMPUTED
        if p is not None and p.detector == "value" and len(spans):
            cells[p.l_start : p.l_det + 1, spans] = CellMap.RECOMPUTED
        if p is not None and len(self._selected):
            cells[self._first_layer : min(p.l_end + 1, self._n_layer), self._selected] = CellMap.RECOMPUTED
        return CellMap(cells, self._deviation)

    # -- access to rows and states -----------------------------------------------------------------------------------------

    def _offsets(self, positions: Tokens) -> Tokens:
        """The place of each span token in its span."""
        starts = np.array([span.start for span in self._plan.of(Kind.SPAN)], np.int32)
        return positions - starts[np.searchsorted(starts, positions, side="right") - 1]

    def _captured(self, name: str, positions: Tokens) -> F32:
        """The captured vectors of these tokens, float32 `[n, width]`."""
        return self._states[name][positions].astype(np.float32)

    def _run(self, layers: tuple[int, int], active: Active, *, write_end: int | None = None, want: tuple[str, ...] = ()) -> dict[str, F32]:
        """A slice over any number of tokens, in batches by position. Results are in `active`'s order; some are the last batch's alone."""
        first, end = layers
        is_probed = not {"v", "attention", "mass"}.isdisjoint(want)
        self._late.write(max(end, write_end or 0, end + is_probed))
        size = self._cache.info.n_batch
        parts: dict[str, list[F32]] = {name: [] for name in want}
        for start in range(0, len(active), size):
            is_last = start + size >= len(active)
            positions = active.positions[start : start + size]
            result = self._cache.slice(
                layers, positions, write_end=write_end,
                n_probe=min(len(self._plan.segments[-1]), len(positions), N_READERS) if is_last else 0,
                tokens=self._plan.tokens[positions] if first == 0 else None,
                hidden=None if active.hidden is None else active.hidden[start : start + size], is_bitwise=False,
                want=tuple(name for name in want if is_last or name not in OF_LAST_BATCH),
            )  # fmt: skip
            for name in want:
                value = getattr(result, name)
                if value is not None:
                    parts[name].append(value)
        return {name: values[-1] if name in OF_LAST_BATCH else np.concatenate(values) for name, values in parts.items()}


PROBES: dict[Detector, Callable[[Sweep, Active, RelayParameters], Probe]] = {
    "attention": Sweep._probe_attention,
    "value": Sweep._probe_values,
}
