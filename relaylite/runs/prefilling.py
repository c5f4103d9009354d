"""Carrying out a plan on an engine; rows that turn out to be damaged are forgotten, and another plan is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from relaylite.engine.interface import EngineLike, Prefill
from relaylite.events import PhaseName
from relaylite.metrics import Stopwatch
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.planner import Matcher, make_plan
from relaylite.reuse.row_loading import Damaged


@dataclass(frozen=True, slots=True)
class Prefilled:
    """The plan that was carried out, what the engine says of it, and the milliseconds that it took."""

    plan: Plan
    prefill: Prefill
    took_ms: float


class Speed(Protocol):
    def learn(self, start: int, n_tokens: int, ms: float, /) -> None: ...


class RowSource(Matcher, Protocol):
    """Where rows are from: a store."""

    @property
    def speed(self) -> Speed:
        """Told how long computing tokens took."""
        ...

    def forget(self, damaged: Damaged) -> None: ...


def carry_out(plan: Plan, engine: EngineLike, source: RowSource, on_phase: Callable[[PhaseName], None]) -> Prefilled:
    """Prefill. Raises what `EngineLike.prefill` raises, but Damaged: what is damaged is forgotten, and the plan is made anew."""
    watch = Stopwatch()
    while True:
        try:
            done = Prefilled(plan, engine.prefill(plan, on_phase), watch.ms())
            break
        except Damaged as damaged:
            source.forget(damaged)
            plan = make_plan(plan.tokens, engine.kept_states or source, plan.policy, plan.quotes)
    if not plan.count(Kind.SPAN):  # repair computes other cells than whole tokens
        source.speed.learn(plan.count(Kind.PREFIX), plan.count(Kind.NEW), done.prefill.suffix_ms)
    return done
