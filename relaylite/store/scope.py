"""`Scope`: a store as one party sees it. What it puts, no other scope finds; the store's budgets are those of all scopes together."""

from __future__ import annotations

from collections.abc import Sequence

from relaylite.reuse.plan import Quote, Segment
from relaylite.reuse.row_loading import Damaged
from relaylite.reuse.rows import Rows, Tokens
from relaylite.store.prefill_speed import PrefillSpeed
from relaylite.store.rowfile import scope_mark
from relaylite.store.store import Store, StoreStats


class Scope:
    """Fulfils `planner.Matcher`. `name` may be a secret: neither memory nor disk keep it, only its mark. "" is the store itself."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._mark = store, scope_mark(name)

    @property
    def speed(self) -> PrefillSpeed:
        return self._store.speed

    def put(self, rows: Rows, *, agent: str | None = None, answer: int | None = None) -> None:
        self._store.put(rows, agent=agent, answer=answer, scope=self._mark)

    def prefix(self, tokens: Tokens, *, exact: bool) -> Segment | None:
        return self._store.prefix(tokens, exact=exact, scope=self._mark)

    def spans(self, tokens: Tokens, start: int, min_length: int, quotes: Sequence[Quote] = ()) -> list[Segment]:
        return self._store.spans(tokens, start, min_length, quotes, scope=self._mark)

    def answers(self) -> list[tuple[Tokens, str]]:
        return self._store.answers(scope=self._mark)

    def prefetch(self, tokens: Tokens) -> None:
        self._store.prefetch(tokens, scope=self._mark)

    def forget(self, damaged: Damaged) -> None:
        self._store.forget(damaged)

    def stats(self) -> StoreStats:
        """What the scope holds, and what it was good for."""
        return self._store.stats(scope=self._mark)
