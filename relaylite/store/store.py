"""`Store`: rows that outlive a turn, found again by token ids, never beyond a budget.

Rows handed out stay valid when the store drops them: a `Match` holds them. Those that come from disk are checked and decoded when they
are used; whoever finds them damaged then (`Damaged`) tells the store, and asks again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from relaylite.errors import UsageError
from relaylite.reuse.plan import Match
from relaylite.reuse.row_loading import Damaged
from relaylite.reuse.rows import RowLayout, Rows, Tokens
from relaylite.store.captured import captured_rows
from relaylite.store.codec import PLAIN, Codec
from relaylite.store.folder import CannotWrite, RowFolder
from relaylite.store.gather import Piece, gather
from relaylite.store.ledger import Ledger
from relaylite.store.prefill_speed import PrefillSpeed
from relaylite.store.radix import Node
from relaylite.store.stats import StoreStats
from relaylite.store.tiers import Lost, Tiers
from relaylite.store.worth import Foresight

DISK_BYTES = 4 * 2**30


class Store:
    """Rows of one layout, in memory and, if a folder is given, on disk. May be used from several threads.

    `budget_bytes` of memory; `disk_bytes` for all files in the folder, other models' too.
    Nothing is written before `flush`, `close`, or memory runs out.
    """

    def __init__(
        self,
        layout: RowLayout,
        budget_bytes: int,
        *,
        folder: Path | None = None,
        disk_bytes: int = DISK_BYTES,
        codec: Codec = PLAIN,
        foresight: Foresight | None = None,
    ) -> None:
        """Raises UsageError if `codec` cannot hold such rows."""
        try:
            for form, sizes in ((codec.k, layout.k_bytes), (codec.v, layout.v_bytes)):
                for row_bytes in sizes:
                    form.encoded_bytes(row_bytes)
        except ValueError as error:
            raise UsageError(f"the store cannot keep this model's rows as {codec.name}: {error}; use plain") from error
        self.layout = layout
        rows_on_disk = RowFolder(folder, disk_bytes) if folder is not None and disk_bytes > 0 else None
        self._tiers = Tiers(layout, budget_bytes, rows_on_disk, codec, foresight or Foresight())
        self._lock = threading.RLock()
        self._asked: set[Node] = set()  # nodes that matched since the last put
        self._hits = self._hit_tokens = 0
        self._is_counting = True
        self._entered = Ledger()  # what the ledger on disk holds of this store
        ledger = rows_on_disk.ledger() if rows_on_disk is not None else Ledger()
        self._tiers.foresight.learn(ledger.follows)
        self.speed = PrefillSpeed(ledger.speeds.get(layout.fingerprint, ()))

    @property
    def has_disk(self) -> bool:
        return self._tiers.folder is not None

    def put(self, rows: Rows) -> None:
        """Keep `rows`; what is there already is not stored again. The arrays must not be written to afterwards.

        The states that they have are those that relaying needs from now on: rows with others only count as not captured.
        """
        if rows.layout != self.layout:
            raise ValueError("rows of another layout")
        with self._lock:
            self._tiers.refresh()
            if rows.origin:  # else no agent's turn: a prompt computed for later
                self._tiers.foresight.finish_turn(rows.origin)
            if rows.states:
                self._tiers.holdings.want(frozenset(rows.states))
            while len(rows) and not self._keep(rows):
                pass
            for node in self._asked:
                self._tiers.foresight.note_hit(node.uses)
            self._asked = set()

    def prefix(self, tokens: Tokens, *, exact: bool) -> Match | None:
        """The longest stored run from position 0 that `tokens` starts with; with `exact`, its exact rows only."""
        with self._lock:
            self._tiers.refresh()
            while True:
                node, n = self._tiers.holdings.tree.descend(tokens, exact=exact)
                if not n:
                    return None
                try:
                    return self._match(0, node.path(), 0, n)
                except Lost:
                    continue

    def spans(self, tokens: Tokens, start: int, min_length: int) -> list[Match]:
        """Stored runs of at least `min_length` tokens in `tokens[start:]`: disjoint, ascending.

        Tokens with captured hidden states come first, then exact rows, then any; among these the longest run, among equally long
        ones those used last.
        """
        with self._lock:
            self._tiers.refresh()
            while True:
                found = self._tiers.holdings.texts.search(tokens, start, min_length)
                try:
                    return [self._match(run.start, path, path[0].start + run.offset, run.n) for run, path in found]
                except Lost:
                    continue

    def prefetch(self, tokens: Tokens) -> None:
        """Rows on disk of what `tokens` begins with are read, checked and decoded now, rather than when they are used."""
        with self._lock:
            self._tiers.refresh()
            node, _ = self._tiers.holdings.tree.descend(tokens, exact=False)
            path = node.path()
        for node in path:
            pieces: list[Piece] = []
            with self._lock, suppress(Lost):
                if self._tiers.holdings.holds(node):
                    pieces = self._tiers.pieces([node], node.start, node.end)
            try:
                for piece in pieces:
                    piece.rows.bring()
            except Damaged as damaged:
                self.forget(damaged)

    def forget(self, damaged: Damaged) -> None:
        """Rows that a match handed out cannot be used: their file is removed."""
        with self._lock:
            self._tiers.lose(damaged.name, damaged.problem)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Matches inside are no hits: nobody waits for what they find."""
        self._is_counting = False
        try:
            yield
        finally:
            self._is_counting = True

    def flush(self) -> None:
        """Write to disk what is in memory only, and enter in its ledger what hits saved since the last time."""
        with self._lock:
            self._tiers.flush()
            speeds = {self.layout.fingerprint: self.speed.samples} if self.speed.has_news else {}
            total = Ledger(self._hits, self._hit_tokens, self._seconds_saved(), self._tiers.foresight.seen(), speeds)
            if self._tiers.folder is not None and total != self._entered:
                with suppress(CannotWrite):
                    self._tiers.folder.add_to_ledger(total.minus(self._entered))
                    self._entered = total

    def close(self) -> None:
        """The same; the store can be used on."""
        self.flush()

    def clear(self) -> None:
        """Drop all rows of this layout, on disk too."""
        with self._lock:
            self._tiers.clear()
            self._asked = set()

    def stats(self) -> StoreStats:
        with self._lock:
            nodes = list(self._tiers.holdings.nodes())
            files = {node.file.path.name: node.file for node in nodes if node.file is not None}
            return StoreStats(
                spans=len(nodes),
                tokens=sum(len(node.tokens) for node in nodes),
                ram_bytes=self._tiers.holdings.ram_bytes,
                ram_budget_bytes=self._tiers.budget_bytes,
                disk_bytes=sum(file.n_bytes for file in files.values()),
                disk_budget_bytes=self._tiers.folder.budget_bytes if self._tiers.folder is not None else 0,
                hits=self._hits,
                hit_tokens=self._hit_tokens,
                seconds_saved=self._seconds_saved(),
            )

    def _seconds_saved(self) -> float:
        return self._hit_tokens * self.speed.ms_per_token / 1000

    def _match(self, start: int, path: list[Node], first: int, n: int) -> Match:
        """Prompt tokens from `start` on are those at positions `[first, first + n)` of `path`."""
        passed = [node for node in path if node.start < first + n]
        rows, offset = gather(self._tiers.pieces(passed, first, first + n), first, first + n)
        self._tiers.holdings.touch(passed[-1])
        if self._is_counting:
            self._asked.update(node for node in passed if node.end > first)
            self._hits += 1
            self._hit_tokens += n
        return Match(start, rows, offset, n)

    def _keep(self, rows: Rows) -> bool:
        """False if files turned out to be lost on the way: what is there has changed."""
        if rows.position:
            self._tiers.admit(None, rows, is_exact=False)
            return True
        try:
            parent = self._extend(self._tiers.holdings.tree.root, rows, 0, rows.n_exact, is_exact=True)
            if parent is not None:
                self._extend(parent, rows, rows.n_exact, len(rows), is_exact=False)
        except Lost:
            return False
        return True

    def _extend(self, node: Node, rows: Rows, start: int, end: int, *, is_exact: bool) -> Node | None:
        """Have `rows[start:end]` behind `node`; the node that ends there, or None if there is no room for it."""
        holdings = self._tiers.holdings
        last, n = holdings.tree.follow(node, rows.tokens[start:end], is_exact=is_exact)
        last = holdings.end_at(last, start + n)
        known_nodes = [node for node in last.path() if node.start >= start]
        captured = captured_rows(rows, holdings.wanted) if known_nodes else np.empty(0, bool)
        for known in known_nodes:
            self._tiers.renew(known, rows, captured, keep=last)
        holdings.touch(last)
        if start + n == end:
            return last
        return self._tiers.admit(last, rows if start + n == 0 and end == len(rows) else rows.slice(start + n, end), is_exact=is_exact)
