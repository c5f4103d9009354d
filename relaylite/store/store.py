"""`Store`: rows that outlive a turn, found again by token ids, never beyond a budget.

Decides what is kept and what is handed out. Rows handed out stay valid when the store drops them: a `Match` holds them.
"""

from __future__ import annotations

import logging
import threading
from itertools import count

import numpy as np

from relaylite.plan import Match
from relaylite.rows import RowLayout, Rows, Tokens
from relaylite.store.choice import Candidate, Gaps, choose
from relaylite.store.gather import captured, gather
from relaylite.store.radix import Node, RadixTree
from relaylite.store.renewal import renewed
from relaylite.store.runs import Run, RunIndex, window_for
from relaylite.store.stats import StoreStats

MAX_EQUAL = 8  # stored runs of the very same prompt tokens that are looked at closely

log = logging.getLogger("relaylite.store")


class Store:
    """Rows of one layout, in memory, at most `budget_bytes` of them. May be used from several threads."""

    def __init__(self, layout: RowLayout, budget_bytes: int) -> None:
        self.layout = layout
        self.budget_bytes = budget_bytes
        self._lock = threading.RLock()
        self.clear()

    def clear(self) -> None:
        """Drop all rows."""
        with self._lock:
            self._tree = RadixTree(Node(_no_rows(self.layout), is_exact=True))
            self._texts: dict[int, Node] = {}
            self._key_of: dict[Node, int] = {}
            self._indexes: dict[int, RunIndex] = {}
            self._serial = count(1)
            self._n_bytes = self._hits = self._hit_tokens = 0

    def put(self, rows: Rows) -> None:
        """Keep `rows`; what is there already is not stored again. The arrays must not be written to afterwards."""
        if rows.layout != self.layout:
            raise ValueError("rows of another layout")
        with self._lock:
            if rows.position:
                self._add(None, rows, is_exact=False)
                return
            parent = self._extend(self._tree.root, rows, 0, rows.n_exact, is_exact=True)
            if parent is not None:
                self._extend(parent, rows, rows.n_exact, len(rows), is_exact=False)

    def prefix(self, tokens: Tokens, *, exact: bool) -> Match | None:
        """The longest stored run from position 0 that `tokens` starts with; with `exact`, its exact rows only."""
        with self._lock:
            node, n = self._tree.descend(tokens, exact=exact)
            if not n:
                return None
            self._touch(node)
            return self._hit(0, node.path(), 0, n)

    def spans(self, tokens: Tokens, start: int, min_length: int) -> list[Match]:
        """Stored runs of at least `min_length` tokens in `tokens[start:]`: disjoint, ascending.

        Runs of tokens with captured hidden states come first, then any; among these the longest, among equally long ones exact
        rows before relayed ones, then those used last.
        """
        with self._lock:
            runs = self._index(window_for(min_length)).find(tokens[start:], min_length)
            paths = {run.key: self._texts[run.key].path() for run in runs}
            candidates = _newest([self._candidate(run, paths[run.key], start) for run in runs])
            whole = [part for candidate in candidates for part in _captured_parts(candidate, paths[candidate.key])]
            gaps = Gaps(start, len(tokens))
            chosen = choose(whole, min_length, gaps) + choose(candidates, min_length, gaps)
            return [self._match(candidate, paths[candidate.key]) for candidate in sorted(chosen, key=lambda c: c.start)]

    def stats(self) -> StoreStats:
        with self._lock:
            nodes = [*self._tree.nodes(), *(leaf for leaf in self._texts.values() if leaf.parent is None)]
            return StoreStats(
                spans=len(nodes),
                tokens=sum(len(node.rows) for node in nodes),
                ram_bytes=self._n_bytes,
                ram_budget_bytes=self.budget_bytes,
                hits=self._hits,
                hit_tokens=self._hit_tokens,
            )

    def _candidate(self, run: Run, path: list[Node], start: int) -> Candidate:
        first = path[0].start + run.offset
        is_exact = all(node.is_exact for node in path if node.start < first + run.n and node.end > first)
        return Candidate(start + run.start, run.n, run.key, run.offset, (is_exact, path[-1].used))

    def _match(self, candidate: Candidate, path: list[Node]) -> Match:
        first = path[0].start + candidate.offset
        self._touch(next(node for node in path if node.end >= first + candidate.n))
        return self._hit(candidate.start, path, first, candidate.n)

    def _hit(self, start: int, path: list[Node], first: int, n: int) -> Match:
        """Prompt tokens from `start` on are those at positions `[first, first + n)` of `path`."""
        rows, offset = gather(path, first, first + n)
        self._hits += 1
        self._hit_tokens += n
        return Match(start, rows, offset, n)

    def _extend(self, node: Node, rows: Rows, start: int, end: int, *, is_exact: bool) -> Node | None:
        """Have `rows[start:end]` behind `node`; the node that ends there, or None if there is no room for it."""
        last, n = self._tree.follow(node, rows.tokens[start:end], is_exact=is_exact)
        if start + n < last.end:
            last = self._tree.split(last, start + n)
        self._renew(last, node, rows)
        self._touch(last)
        if start + n == end:
            return last
        return self._add(last, rows if start + n == 0 and end == len(rows) else rows.slice(start + n, end), is_exact=is_exact)

    def _renew(self, last: Node, first: Node, rows: Rows) -> None:
        """Give the nodes behind `first` up to `last` what newer rows of the same tokens add."""
        node = last
        while node is not first and node.parent is not None:
            newer = renewed(node.rows, rows, is_exact=node.is_exact)
            growth = newer.n_bytes - node.rows.n_bytes
            if newer is not node.rows and self._make_room(growth, last):
                node.rows = newer
                self._n_bytes += growth
            node = node.parent

    def _add(self, parent: Node | None, rows: Rows, *, is_exact: bool) -> Node | None:
        """A new node behind `parent`, or detached; None if there is no room for it."""
        if not len(rows) or not self._make_room(rows.n_bytes, parent):
            return None
        node = Node(rows, is_exact, used=next(self._serial))
        self._n_bytes += rows.n_bytes
        if parent is not None:
            self._unlist(parent)
            self._tree.attach(parent, node)
        self._list(node)
        return node

    def _make_room(self, n_bytes: int, keep: Node | None) -> bool:
        """Drop leaves until `n_bytes` more fit, but none on the path to `keep`; False, and nothing dropped, if that cannot be."""
        kept = keep.path() if keep is not None else []
        if n_bytes > self.budget_bytes - sum(node.rows.n_bytes for node in kept):
            log.warning("%.0f MB of rows do not fit the store's memory; raise its budget to keep them", n_bytes / 1e6)
            return False
        while self._n_bytes + n_bytes > self.budget_bytes:
            self._drop(min((leaf for leaf in self._texts.values() if leaf not in kept), key=lambda leaf: leaf.used))
        return True

    def _drop(self, leaf: Node) -> None:
        self._unlist(leaf)
        self._n_bytes -= leaf.rows.n_bytes
        parent = leaf.parent
        if parent is None:
            return
        self._tree.remove(leaf)
        if not parent.children and parent is not self._tree.root:
            self._list(parent)

    def _touch(self, node: Node) -> None:
        serial = next(self._serial)
        for passed in node.path():
            passed.used = serial

    def _list(self, leaf: Node) -> None:
        """Make the text that ends in `leaf` findable by its runs."""
        key = next(self._serial)
        self._texts[key], self._key_of[leaf] = leaf, key
        for index in self._indexes.values():
            index.add(key, _text(leaf))

    def _unlist(self, leaf: Node) -> None:
        key = self._key_of.pop(leaf, None)
        if key is not None:
            del self._texts[key]
            for index in self._indexes.values():
                index.discard(key)

    def _index(self, window: int) -> RunIndex:
        if window not in self._indexes:
            index = self._indexes[window] = RunIndex(window)
            for key, leaf in self._texts.items():
                index.add(key, _text(leaf))
        return self._indexes[window]


def _text(leaf: Node) -> Tokens:
    return np.concatenate([node.tokens for node in leaf.path()])


def _newest(candidates: list[Candidate]) -> list[Candidate]:
    """Of candidates for the very same tokens, those of highest rank: a task stands in hundreds of prompts."""
    of_place: dict[tuple[int, int], list[Candidate]] = {}
    for candidate in candidates:
        of_place.setdefault((candidate.start, candidate.n), []).append(candidate)
    return [best for same in of_place.values() for best in sorted(same, key=lambda c: c.rank)[-MAX_EQUAL:]]


def _captured_parts(candidate: Candidate, path: list[Node]) -> list[Candidate]:
    """The stretches of `candidate` whose hidden states were captured."""
    first = path[0].start + candidate.offset
    mask = np.concatenate([[False], captured(path, first, first + candidate.n), [False]])
    edges = np.flatnonzero(mask[1:] != mask[:-1]) + candidate.start
    return [candidate.within(start, end) for start, end in edges.reshape(-1, 2).tolist()]


def _no_rows(layout: RowLayout) -> Rows:
    return Rows(np.empty(0, np.int32), 0, 0, np.empty(0, np.uint8), layout)
