"""Fuzzes an engine: turns by every policy with a store between them, cancelled anywhere, failing, forced, and half read.

After each step every position must hold the row of the token that the engine says is there, and a turn must work again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.live_engine import LiveEngine, opened, plan_of
from support.numpy_rope import ROPES
from support.tiny_models import write_model

from fuzz.identity import Identity, live_rows
from relaylite.errors import Cancelled, ContextOverflow, ModelError, NativeError
from relaylite.reuse.plan import Kind, Plan, Segment
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, NAIVE, PREFIX, RELAY, Policy
from relaylite.reuse.profile import RelayParameters
from relaylite.reuse.rows import RowLayout, Rows
from relaylite.sampling import Sampling
from relaylite.store import Store

N_STEPS = 14
N_CTX = 512
SHORT = Policy("naive", use_prefix=True, use_spans=True, min_span=5)
POLICIES = (FULL, PREFIX, NAIVE, RELAY, RELAY, SHORT)


def run(rng: np.random.Generator, folder: Path) -> None:
    arch = str(rng.choice(list(ROPES)))
    path = write_model(folder / "m.gguf", arch, n_layer=int(rng.integers(2, 5)), weights="F32")
    with opened(path, n_ctx=N_CTX, kv_type="f32") as live:
        Episode(rng, live, Identity(live, ROPES[arch])).steps()


class Episode:
    """One engine with a store, and texts that come again in its prompts."""

    def __init__(self, rng: np.random.Generator, live: LiveEngine, identity: Identity) -> None:
        self.rng, self.live, self.engine, self.identity = rng, live, live.engine, identity
        self.store = Store(live.engine.layout, int(rng.choice([1 << 28, 300_000])))
        self.texts = [live.tokens(int(rng.integers(1, 80)), int(rng.integers(1000))) for _ in range(4)]
        self.relay_anew()

    def steps(self) -> None:
        actions: list[Callable[[], None]] = [
            self.turn, self.turn, self.turn, self.turn, self.cancelled_prefill, self.failing_reader, self.cancelled_answer,
            self.timed_cancel, self.too_long, self.foreign_rows, self.unknown_tokens, self.forced_badly, self.relay_anew,
        ]  # fmt: skip
        for _ in range(N_STEPS):
            actions[self.rng.integers(len(actions))]()
            self.identity.check(live_rows(self.live))
        self.turn()

    # -- what plans are made of ------------------------------------------------------------------------------------------

    def prompt(self) -> list[int]:
        chosen = self.rng.integers(len(self.texts), size=int(self.rng.integers(1, 5)))
        return [token for i in chosen for token in self.texts[i]]

    def plan(self) -> Plan:
        return make_plan(self.prompt(), self.store, POLICIES[self.rng.integers(len(POLICIES))])

    def relay_anew(self) -> None:
        """Other parameters, any that are possible."""
        rng, n_layer = self.rng, self.live.n_layer
        l_start, l_det, l_end = np.sort(rng.integers(0, n_layer, 3)).tolist()
        by_value = l_det > l_start
        self.live.relay_by(
            RelayParameters(
                l_start, l_det, max(l_end, l_det) if rng.random() < 0.5 else n_layer, "value" if by_value else "attention",
                tau=float(rng.choice([0.0, 1.0, 1.5])), max_share=float(rng.choice([0.0, 0.2, 1.0])),
                attended=float(rng.choice([0.0, 0.5, 1.0])),
            )
        )  # fmt: skip
        assert len(live_rows(self.live)) == 0

    # -- steps -----------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        plan = self.plan()
        cells = self.live.prefill(plan).cells.cells
        rows = live_rows(self.live)
        assert rows.tokens.tolist() == plan.tokens.tolist()
        self.check_reused(plan, rows, cells)
        assert np.isfinite(self.engine.logits()).all()
        answer = self.write()
        if len(answer) >= 8 and self.rng.random() < 0.5:
            self.texts[self.rng.integers(len(self.texts))] = answer
        self.store.put(self.engine.harvest("agent"))

    def check_reused(self, plan: Plan, rows: Rows, cells: np.ndarray) -> None:
        """Cells of spans that are said to be taken over are: V, which is never turned, byte for byte."""
        for segment in plan.of(Kind.SPAN):
            assert segment.rows is not None
            taken = slice(segment.offset, segment.offset + len(segment))
            for il in range(self.live.n_layer):
                is_reused = cells[il, segment.start : segment.end] <= 1
                held, given = rows.v(il)[segment.start : segment.end], segment.rows.v(il)[taken]
                assert np.array_equal(held[is_reused], given[is_reused])

    def write(self) -> list[int]:
        n = min(int(self.rng.integers(0, 50)), N_CTX - len(live_rows(self.live)))
        if self.rng.random() < 0.3 and n:
            tokens = self.live.tokens(n, int(self.rng.integers(1000)))
            self.engine.force(tokens)
            return tokens
        writer = self.engine.generate(Sampling(max_tokens=n, temperature=1.0, seed=int(self.rng.integers(1000))))
        if self.rng.random() < 0.2 and n:
            next(writer)
            writer.close()
        else:
            list(writer)
        return list(writer.tokens)

    def cancelled_prefill(self) -> None:
        phase = str(self.rng.choice(["place", "suffix", "repair"]))
        with suppress(Cancelled):
            self.engine.prefill(self.plan(), lambda now: self.engine.cancel() if now == phase else None)
            return
        assert len(live_rows(self.live)) == 0

    def failing_reader(self) -> None:
        def fail(now: str) -> None:
            raise KeyError(now)

        with pytest.raises(KeyError):
            self.engine.prefill(self.plan(), fail)
        assert len(live_rows(self.live)) == 0

    def cancelled_answer(self) -> None:
        self.live.prefill(self.plan())
        n_before = len(live_rows(self.live))
        deltas = self.engine.generate(Sampling(max_tokens=40, temperature=1.0))
        for _ in range(int(self.rng.integers(0, 4))):
            next(deltas, None)
        self.engine.cancel()
        with suppress(Cancelled, StopIteration):
            next(deltas)
        assert len(live_rows(self.live)) >= n_before

    def timed_cancel(self) -> None:
        """From another thread, at any moment."""
        timer = threading.Timer(float(self.rng.random() * 0.02), self.engine.cancel)
        timer.start()
        with suppress(Cancelled):
            self.live.prefill(self.plan())
            list(self.engine.generate(Sampling(max_tokens=30)))
        timer.join()

    def too_long(self) -> None:
        before = live_rows(self.live)
        with pytest.raises(ContextOverflow):
            self.live.prefill(plan_of(FULL, self.live.tokens(N_CTX + int(self.rng.integers(0, 200)))))
        assert np.array_equal(live_rows(self.live).data, before.data)

    def foreign_rows(self) -> None:
        before = live_rows(self.live)
        layout = RowLayout(self.engine.layout.k_bytes, self.engine.layout.v_bytes, "another model")
        tokens = np.array(self.texts[0], np.int32)
        rows = Rows(tokens, 0, 0, np.zeros(len(tokens) * layout.token_bytes, np.uint8), layout)
        kind = Kind.PREFIX if self.rng.random() < 0.5 else Kind.SPAN
        segments = (Segment(0, len(tokens), kind, rows), Segment(len(tokens), len(tokens) + 1, Kind.NEW))
        with pytest.raises(ModelError, match="another model"):
            self.live.prefill(Plan(np.append(tokens, 30).astype(np.int32), segments, NAIVE))
        assert np.array_equal(live_rows(self.live).data, before.data)

    def unknown_tokens(self) -> None:
        plan = self.plan()
        tokens = plan.tokens.copy()
        new = plan.positions(Kind.NEW)
        tokens[new[self.rng.integers(len(new))]] = int(self.rng.choice([-1, 10**6, self.engine.info.n_vocab]))
        with pytest.raises(NativeError) as caught:
            self.live.prefill(replace(plan, tokens=tokens))
        assert "\n" not in str(caught.value) and len(live_rows(self.live)) == 0

    def forced_badly(self) -> None:
        """No tokens, too many for a batch or for what is left of the context, or none of the vocabulary."""
        self.live.prefill(self.plan())
        for tokens in ([], [30] * 513, [10**6]):
            with pytest.raises((NativeError, ValueError)):
                self.engine.force(tokens)
            assert len(live_rows(self.live)) == 0
