"""How well the rows from writing an answer match those that a full prefill of the reading prompt gives, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relaylite.bench.chains import Reading
from relaylite.bench.figures import Figure, Series
from relaylite.engine.engine import Engine
from relaylite.prompt.builder import PromptBuilder
from relaylite.reuse import row_numbers
from relaylite.reuse.kv_types import F16
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, NAIVE
from relaylite.reuse.rows import Rows, Tokens

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Similarity:
    """Mean cosine of the relayed tokens' V rows, and of their K rows rotated to their new place; float64 `[n_layer]` each."""

    v: F64
    k: F64

    def figure(self) -> Figure:
        """The curve over the layers."""
        lines = (("V", self.v), ("K, rotated", self.k))
        series = tuple(Series(name, tuple((float(il), float(value)) for il, value in enumerate(values))) for name, values in lines)
        return Figure("Rows from writing against rows from a full prefill", "layer", "mean cosine", series)

    def has_dip(self) -> bool:
        """Whether the V curve is U-shaped: lower in the middle half of the layers than anywhere towards both ends."""
        n = len(self.v)
        middle = self.v[n // 4 : n - n // 4].min()
        return bool(n >= 8 and middle < self.v[: n // 4].max() and middle < self.v[n - n // 4 :].max() and middle == self.v.min())


def similarity_of(engine: Engine, reading: Reading, prompts: PromptBuilder) -> list[Similarity]:
    """For one prompt; nothing if it holds no relayed text. The cache must hold F16 rows."""
    tokens = prompts.build(reading.messages).tokens
    plan = make_plan(tokens, reading.store, NAIVE)
    if not plan.count(Kind.SPAN):
        return []
    engine.configure(engine.profile)
    engine.prefill(plan, lambda _: None)
    moved = engine.harvest("")
    engine.configure(engine.profile)
    engine.prefill(make_plan(tokens, reading.store, FULL), lambda _: None)
    return [compare(moved, engine.harvest(""), plan.positions(Kind.SPAN))]


def compare(moved: Rows, computed: Rows, positions: Tokens) -> Similarity:
    """Rows of two runs of the same tokens, at these positions."""
    layers = range(moved.layout.n_layer)
    v = [_cosine(moved.v(il)[positions], computed.v(il)[positions]) for il in layers]
    k = [_cosine(moved.k(il)[positions], computed.k(il)[positions]) for il in layers]
    return Similarity(np.array(v), np.array(k))


def mean(parts: list[Similarity]) -> Similarity:
    return Similarity(np.mean([part.v for part in parts], axis=0), np.mean([part.k for part in parts], axis=0))


def _cosine(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> float:
    x, y = (row_numbers.values(rows, F16).astype(np.float64) for rows in (a, b))
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    return float(np.mean((x * y).sum(axis=1) / np.maximum(norms, 1e-12)))
