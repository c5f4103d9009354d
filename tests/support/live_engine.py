"""An engine on a real model, driven by plans that a test writes out, and what it left behind: logits, rows, distances between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from relaylite import paths
from relaylite.engine.cache import CacheInfo
from relaylite.engine.engine import Engine
from relaylite.engine.interface import Prefill
from relaylite.engine.options import EngineOptions
from relaylite.reuse import row_numbers
from relaylite.reuse.plan import Kind, Plan, Segment
from relaylite.reuse.policies import FULL, NAIVE, Policy
from relaylite.reuse.profile import Profile, RelayParameters
from relaylite.reuse.rows import Rows, Tokens
from relaylite.sampling import Sampling

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Taken:
    """Part of a prompt whose rows are taken over: tokens `[first, first + n)` of `rows`, all from `first` on by default."""

    rows: Rows
    first: int = 0
    n: int | None = None
    kind: Kind = Kind.SPAN

    @property
    def tokens(self) -> Tokens:
        end = len(self.rows) if self.n is None else self.first + self.n
        return self.rows.tokens[self.first : end]

    def at(self, start: int) -> Segment:
        """As a segment of a prompt that begins at `start`."""
        return Segment(start, start + len(self.tokens), self.kind, self.rows, self.first)


def plan_of(policy: Policy, *parts: Taken | Sequence[int] | Tokens) -> Plan:
    """Parts in order: ids are computed, what is `Taken` is placed."""
    tokens: list[int] = []
    segments = []
    for part in parts:
        start = len(tokens)
        tokens += [int(token) for token in (part.tokens if isinstance(part, Taken) else part)]
        segments.append(part.at(start) if isinstance(part, Taken) else Segment(start, len(tokens), Kind.NEW))
    return Plan(np.array(tokens, np.int32), tuple(segments), policy)


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[LiveEngine]:
    """The model at `path` with one thread and a small context, closed afterwards. Its files lie in a home of their own."""
    engine = Engine.open(path, EngineOptions(**{"n_ctx": 2048, "n_threads": 1, **options}))
    try:
        yield LiveEngine(engine)
    finally:
        engine.close()


@contextmanager
def home_of_session(factory: pytest.TempPathFactory) -> Iterator[None]:
    """For fixtures that outlive a test: the user's folders stay untouched there too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(paths.HOME_VARIABLE, str(factory.mktemp("home")))
        yield


@dataclass(frozen=True)
class LiveEngine:
    """What one test works on."""

    engine: Engine

    @property
    def n_layer(self) -> int:
        return self.engine.info.n_layer

    @property
    def cache(self) -> CacheInfo:
        cache = self.engine._sequence.cache
        assert cache is not None
        return cache.info

    def reset(self) -> None:
        """As it was opened, whatever a test did."""
        self.engine.configure(Profile("", dict(self.engine.profile.fidelities)))

    def tokens(self, n: int, seed: int = 0) -> list[int]:
        """Random ids without control tokens."""
        return np.random.default_rng(seed).integers(20, self.engine.info.n_vocab - 20, n).tolist()

    def relay_by(self, parameters: RelayParameters, **others: Any) -> None:
        """All fidelities do this from now on."""
        self.engine.configure(Profile("", {"fast": parameters, "balanced": parameters, "careful": parameters}), **others)

    def prefill(self, plan: Plan) -> Prefill:
        return self.engine.prefill(plan, lambda phase: None)

    def generate(self, n: int, **sampling: Any) -> list[int]:
        """Tokens of the answer; random models rarely end by themselves."""
        writer = self.engine.generate(Sampling(max_tokens=n, **sampling))
        list(writer)
        return list(writer.tokens)

    def logits_of(self, plan: Plan) -> F32:
        self.prefill(plan)
        return self.engine.logits()

    def full(self, tokens: Sequence[int] | Tokens) -> F32:
        """Logits of a full prefill."""
        return self.logits_of(plan_of(FULL, tokens))

    def rows(self, plan: Plan) -> Rows:
        """Rows of the plan's prompt as it leaves them."""
        self.prefill(plan)
        return self.engine.harvest("")

    def full_rows(self, tokens: Sequence[int] | Tokens) -> Rows:
        return self.rows(plan_of(FULL, tokens))

    def written(self, n_prompt: int = 24, n_answer: int = 40, seed: int = 0) -> Rows:
        """Rows of a prompt and of an answer behind it that was decoded token by token, as an upstream agent leaves them."""
        tokens = self.tokens(n_prompt + n_answer, seed)
        self.prefill(plan_of(FULL, tokens[:n_prompt]))
        for token in tokens[n_prompt:]:
            self.engine.force([token])
        return self.engine.harvest("upstream")

    def k(self, rows: Rows, layer: int) -> F32:
        """K of one layer as numbers, `[n, width]`."""
        return row_numbers.values(rows.k(layer), self.cache.type_k)

    def v(self, rows: Rows, layer: int) -> F32:
        return row_numbers.values(rows.v(layer), self.cache.type_v)

    def errors(self, rows: Rows, expected: Rows) -> F32:
        """Of each token, the largest difference of any of its rows, as a share of the row's norm."""
        of_layers = [
            np.linalg.norm(a - b, axis=1) / np.linalg.norm(b, axis=1)
            for il in range(self.n_layer)
            for a, b in ((self.k(rows, il), self.k(expected, il)), (self.v(rows, il), self.v(expected, il)))
        ]
        return np.max(of_layers, axis=0)


def difference(logits: F32, expected: F32) -> float:
    """Root mean square of the difference as a share of the spread of `expected`."""
    return float(np.sqrt(np.mean((logits - expected) ** 2)) / expected.std())


def divergence(expected: F32, logits: F32) -> float:
    """Kullback–Leibler divergence of the next-token distribution from the expected one."""
    p, q = (x.astype(np.float64) - np.logaddexp.reduce(x.astype(np.float64)) for x in (expected, logits))
    return float(np.sum(np.exp(p) * (p - q)))


def changed(parameters: Mapping[str, Any]) -> RelayParameters:
    """Attention at layer 0 that selects everything, with some values replaced."""
    return RelayParameters(**{"l_start": 0, "l_det": 0, "l_end": 99, "detector": "attention", "tau": 0.0, "max_share": 1.0, **parameters})


__all__ = ["NAIVE", "LiveEngine", "Taken", "changed", "difference", "divergence", "home_of_session", "opened", "plan_of"]
