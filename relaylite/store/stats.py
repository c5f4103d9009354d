"""What a store holds and what it was good for. Field names are those of `relaylite store --json`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StoreStats:
    """`spans`: runs of rows held. `hits`: matches handed out since the store was opened; `hit_tokens`: their tokens."""

    spans: int = 0
    tokens: int = 0
    ram_bytes: int = 0
    ram_budget_bytes: int = 0
    hits: int = 0
    hit_tokens: int = 0
