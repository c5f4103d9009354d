"""What a store holds and what it was good for. Field names are those of `relaylite store --json`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StoreStats:
    """Of one layout. `spans`: runs of rows held; `tokens`: their tokens. `hits`: matches handed out since the store was opened;
    `hit_tokens`: their tokens; `seconds_saved`: what computing these would have taken, 0 while no speed is known.
    """

    spans: int = 0
    tokens: int = 0
    ram_bytes: int = 0
    ram_budget_bytes: int = 0
    disk_bytes: int = 0
    disk_budget_bytes: int = 0
    hits: int = 0
    hit_tokens: int = 0
    seconds_saved: float = 0.0


@dataclass(frozen=True, slots=True)
class FolderStats:
    """Of the disk tier, all models and all runs since it was cleared. `models`: fingerprints with rows in it."""

    folder: str
    models: int
    spans: int
    tokens: int
    disk_bytes: int
    disk_budget_bytes: int
    hits: int
    hit_tokens: int
    seconds_saved: float
