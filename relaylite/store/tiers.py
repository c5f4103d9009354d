"""`Tiers`: which rows are in memory, which on disk, and which go when room is needed. The rows worth least go first."""

from __future__ import annotations

import logging
import time
from collections.abc import Set
from itertools import takewhile

import numpy as np

from relaylite.reuse.row_loading import Damaged
from relaylite.reuse.rows import Mask, Rows
from relaylite.store.captured import captured_rows
from relaylite.store.codec import PLAIN, Codec
from relaylite.store.folder import CannotWrite, Entry, RowFolder
from relaylite.store.gather import RowRange, renewed
from relaylite.store.holdings import Holdings
from relaylite.store.radix import Node
from relaylite.store.rowfile import Corrupt, Draft, RowFile, RowWriter, fingerprint_mark
from relaylite.store.worth import Foresight

STALE_S = 7 * 24 * 3600  # another model's rows that were not used for so long go first

log = logging.getLogger("relaylite.store")


class Lost(Exception):
    """Rows that were thought to be on disk are not there. The holdings no longer name them; the caller looks again."""


class Tiers:
    """Moves rows of `holdings` between memory, up to `budget_bytes`, and `folder`, which has a budget of its own.

    `foresight` says how likely rows are asked for again; `codec` is that of the files that are written. A file with a token id of
    `n_vocab` or more is damaged.
    """

    def __init__(
        self, holdings: Holdings, foresight: Foresight, budget_bytes: int, folder: RowFolder | None, codec: Codec, n_vocab: int
    ) -> None:
        self._holdings, self._foresight, self._n_vocab = holdings, foresight, n_vocab
        self._budget_bytes = budget_bytes
        self._folder, self._codec = folder, codec
        self._files: dict[str, RowFile] = {}
        self._is_full_told = False

    def admit(self, parent: Node | None, rows: Rows, *, is_exact: bool, scope: str, answer: int | None) -> Node | None:
        """Keep `rows` behind `parent` (None: detached), in memory or else on disk. Returns their node, None if neither has room."""
        node = Node.of_rows(rows, captured_rows(rows, self._holdings.wanted), is_exact=is_exact, scope=scope)
        node.uses, node.answer = self._foresight.new_uses(), answer
        if self._make_room(rows.n_bytes, parent):
            return self._holdings.add(parent, node)
        node.parent = parent
        if self._save(node):
            node.rows = None
            return self._holdings.add(parent, node)
        if not self._is_full_told:
            self._is_full_told = True
            log.warning(
                "row store: %.1f MB of rows do not fit into %.1f MB of memory and are computed again; raise store.ram or store.disk",
                rows.n_bytes / 1e6,
                self._budget_bytes / 1e6,
            )
        return None

    def _make_room(self, n_bytes: int, keep: Node | None) -> bool:
        """Free memory until `n_bytes` more fit, but touch no rows on the path to `keep`. False if they cannot fit."""
        kept = set(keep.path()) if keep is not None else set()
        if n_bytes > self._budget_bytes - sum(node.ram_bytes for node in kept):
            return False
        inner_stay = self._folder is None
        soon = self._foresight.visits()
        while self._holdings.ram_bytes + n_bytes > self._budget_bytes:
            in_ram = [node for node in self._holdings.nodes() if node.rows is not None and node not in kept]
            outer = [node for node in in_ram if node.file is not None or not node.children]
            victim = min(outer if inner_stay and outer else in_ram, key=lambda node: (self._worth([node], node.ram_bytes, soon), node.used))
            if victim.file is not None or self._save(victim, kept):
                self._holdings.set_rows(victim, None)
            elif victim.children and outer:
                inner_stay = True
            else:
                self._holdings.drop(victim)
        return True

    def renew(self, last: Node, start: int, rows: Rows) -> None:
        """Give the nodes of positions from `start` to the end of `last` what newer `rows` of their text add to them, if there is room.

        `rows` start at position 0. Raises Lost.
        """
        known = [node for node in last.path() if node.start >= start]
        captured = captured_rows(rows, self._holdings.wanted) if known else np.empty(0, bool)
        for node in known:
            self._renew(node, rows, captured, keep=last)

    def _renew(self, node: Node, rows: Rows, captured: Mask, keep: Node) -> None:
        """`captured`: which of `rows` have the states that relaying needs."""
        if node.holds_exact and not (captured[node.start : node.end] & ~node.captured).any():
            return
        old = self._whole(node, keep)
        newer = renewed(old, rows, is_exact=node.holds_exact)
        if newer is not old and self._make_room(newer.n_bytes - node.ram_bytes, keep):
            self._holdings.renew(node, newer)

    def rows(self, path: list[Node], start: int, end: int) -> list[RowRange]:
        """Positions `[start, end)` of the text of `path`: ranges that follow one another, one for each node.

        Raises Lost, after forgetting the file, if a file cannot be used.
        """
        return [self._rows_of(node, path[-1]).within(start, end) for node in path if node.start < end and node.end > start]

    def lose(self, name: str, problem: Exception) -> None:
        """Remove a file that turned out to be damaged, and forget its rows."""
        if self._folder is not None:
            self._folder.discard(name, problem)
        self._forget(name)

    def flush(self) -> None:
        """Write rows that are in memory only, as far as the disk has room or holds rows that are worth less."""
        if self._folder is not None:
            for node in list(self._holdings.nodes()):
                if node.rows is not None and node.file is None and self._holdings.holds(node):
                    self._save(node)

    def refresh(self) -> None:
        """Learn of files that other processes wrote or removed."""
        if self._folder is None or not self._folder.has_changed():
            return
        layout = self._holdings.layout
        mark = fingerprint_mark(layout.fingerprint)
        entries = {entry.name: entry for entry in self._folder.entries() if entry.name.startswith(mark)}
        for name in self._files.keys() - entries.keys():
            self._forget(name)
        opened = [self._folder.open(name) for name in sorted(entries.keys() - self._files.keys())]
        fresh = [file for file in opened if file is not None and file.header.fingerprint == layout.fingerprint]
        for file in sorted(fresh, key=lambda file: (file.header.position, entries[file.name].used_s)):
            if file.tokens.max(initial=0) >= self._n_vocab:
                self._folder.discard(file.name, Corrupt(f"it holds a token id of {file.tokens.max()}, and the vocabulary ends before"))
                continue
            self._files[file.name] = file
            self._holdings.absorb(file)

    def clear(self) -> None:
        """Drop everything in memory, and this model's files."""
        if self._folder is not None:
            self.refresh()
            for name in self._files:
                self._folder.remove(name)
        self._files = {}
        self._holdings.clear()

    def _rows_of(self, node: Node, keep: Node) -> RowRange:
        """All of `node`; nothing on the path to `keep` goes for its rows. Raises Lost."""
        if node.rows is not None:
            return RowRange(node.rows, 0, len(node.tokens))
        file, folder = node.file, self._folder
        if file is None or folder is None:
            raise ValueError("a node without rows and file")
        name = file.name
        try:
            rows, offset = file.rows(self._holdings.layout, node.file_offset, len(node.tokens))
        except Corrupt as problem:
            self.lose(name, problem)
            raise Lost(name) from problem
        except OSError as problem:
            self._forget(name)
            raise Lost(name) from problem
        folder.touch(name)
        if file.header.codec != PLAIN.name and self._make_room(rows.n_bytes, keep):
            self._holdings.set_rows(node, rows)
        return RowRange(rows, offset, len(node.tokens))

    def _whole(self, node: Node, keep: Node) -> Rows:
        """The rows of `node` and no others, all loaded; nothing on the path to `keep` goes for them. Raises Lost."""
        held = self._rows_of(node, keep)
        rows, first = held.rows, held.offset
        try:
            rows.bring()
        except Damaged as problem:
            self.lose(problem.name, problem.problem)
            raise Lost(problem.name) from problem
        return rows if len(rows) == len(node.tokens) else rows.slice(first, first + len(node.tokens))

    def _save(self, node: Node, kept: Set[Node] = frozenset()) -> bool:
        """Write the rows that `node` has in memory. Returns whether they are on disk now. No file that `kept` nodes need goes for them."""
        if self._folder is None or node.rows is None:
            return False
        draft = self._draft(node, node.rows)
        name = draft.file_name
        try:
            removed = self._folder.write(
                name,
                RowWriter(draft, self._codec),
                order=lambda entries: self._order(entries, node, kept | set(node.path())),
                keeps=lambda file: file.header.is_exact and bool(file.captured(self._holdings.wanted).sum() >= node.captured.sum()),
            )
        except CannotWrite:
            return False
        for victim in removed:
            self._forget(victim)
        file = self._folder.open(name)
        if file is None:
            self._forget(name)
            return False
        if (old := self._files.get(name)) is not None:
            self._holdings.replace_file(old, file)
        self._files[name] = node.file = file
        node.file_offset = 0
        return True

    def _draft(self, node: Node, rows: Rows) -> Draft:
        path = node.path()
        if path[0].parent is None:
            return Draft(rows, None, 0, node.scope, node.answer)
        lead = np.concatenate([np.empty(0, np.int32), *(passed.tokens for passed in path[:-1])])
        n_exact = max((passed.end for passed in takewhile(self._is_exact_on_disk, path)), default=0)
        return Draft(rows, lead, n_exact, node.scope, node.answer)

    def _is_exact_on_disk(self, node: Node) -> bool:
        """Whether the rows of `node` are, or will be, exact in their file."""
        return node.is_exact and (self._codec is PLAIN if node.file is None else node.file.header.is_exact)

    def _forget(self, name: str) -> None:
        file = self._files.pop(name, None)
        if file is not None:
            self._holdings.forget_file(file)

    def _order(self, entries: list[Entry], node: Node, kept: Set[Node]) -> list[str]:
        """The files that may go for `node`, in this order: stale ones of other models, ours that are worth less, others of other models."""
        soon = self._foresight.visits()
        users: dict[str, list[Node]] = {name: [] for name in self._files}
        for user in self._holdings.nodes():
            if user.file is not None:
                users[user.file.name].append(user)
        foreign = sorted((entry for entry in entries if entry.name not in users), key=lambda entry: entry.used_s)
        stale = [entry.name for entry in foreign if entry.used_s < time.time() - STALE_S]
        own_worth = self._worth([node], node.ram_bytes, soon)
        ranked = []
        for entry in entries:
            if entry.name in users and not any(_is_needed(user, kept) for user in users[entry.name]):
                worth = self._worth(users[entry.name], entry.n_bytes, soon)
                if worth <= own_worth:
                    ranked.append((worth, max((user.used for user in users[entry.name]), default=0), entry.name))
        return [*stale, *(name for *_, name in sorted(ranked)), *(entry.name for entry in foreign if entry.name not in set(stale))]

    def _worth(self, nodes: list[Node], n_bytes: int, soon: dict[str, float]) -> float:
        """Tokens that the next turns need not compute, per byte. All tokens of one model cost about the same seconds."""
        return sum(self._foresight.chance(node.uses, soon) * len(node.tokens) for node in nodes) / max(n_bytes, 1)


def _is_needed(node: Node, kept: Set[Node]) -> bool:
    """Whether more than the node is lost with its file: rows behind it in other files, or rows that are being put behind it."""
    if node.rows is not None and node.rows.is_whole:
        return False
    return node in kept or any(other.file is not node.file for other in node.family())
