"""`Ledger`: what outlives a process besides rows: what hits saved, who followed whom, how fast prefills were. Plain values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from relaylite.store.prefill_speed import Sample

VERSION = 1
Follows = Mapping[str, Mapping[str, float]]
Speeds = Mapping[str, tuple[Sample, ...]]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Sums over all models. `follows`: agent → agent → how often the second ran after the first. `speeds`: fingerprint → prefills."""

    hits: int = 0
    hit_tokens: int = 0
    seconds_saved: float = 0.0
    follows: Follows = field(default_factory=dict)
    speeds: Speeds = field(default_factory=dict)

    def plus(self, other: Ledger) -> Ledger:
        """Counts add up; of speeds, `other`'s are the newer ones."""
        return Ledger(
            self.hits + other.hits,
            self.hit_tokens + other.hit_tokens,
            self.seconds_saved + other.seconds_saved,
            sums(self.follows, other.follows),
            {**self.speeds, **other.speeds},
        )

    def minus(self, other: Ledger) -> Ledger:
        """Counts without `other`'s."""
        return self.plus(Ledger(-other.hits, -other.hit_tokens, -other.seconds_saved, sums({}, other.follows, -1.0)))

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """What `to_json` wrote; an empty ledger if the text is damaged or of a later version."""
        try:
            values = json.loads(text)
            if values["version"] != VERSION:
                return cls()
            follows = {str(a): {str(b): float(n) for b, n in after.items()} for a, after in values["follows"].items()}
            return cls(int(values["hits"]), int(values["hit_tokens"]), float(values["seconds_saved"]), follows, _speeds(values))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return cls()


def _speeds(values: Mapping[str, Any]) -> Speeds:
    speeds = {str(name): tuple((int(n), float(ms)) for n, ms in samples) for name, samples in values.get("speeds", {}).items()}
    if any(n < 1 or not 0 <= ms < math.inf for samples in speeds.values() for n, ms in samples):
        raise ValueError("no speed")
    return speeds


def sums(a: Follows, b: Follows, factor: float = 1.0) -> dict[str, dict[str, float]]:
    """`a + factor · b`, count by count."""
    return {
        first: {
            second: a.get(first, {}).get(second, 0.0) + factor * b.get(first, {}).get(second, 0.0)
            for second in sorted({*a.get(first, {}), *b.get(first, {})})
        }
        for first in sorted({*a, *b})
    }
