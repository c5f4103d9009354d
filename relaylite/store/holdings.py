"""`Holdings`: what a store has, kept consistent: the tree, the texts in it, and the bytes in memory. Finds and changes; decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np

from relaylite.reuse.overlaps import Overlap
from relaylite.reuse.plan import Quote
from relaylite.reuse.rows import RowLayout, Rows, Tokens
from relaylite.store.captured import captured_rows
from relaylite.store.radix import Node, RadixTree
from relaylite.store.rowfile import RowFile
from relaylite.store.texts import Texts

FEW_SCOPES = 64  # whose empty ones cost nothing worth looking for


class Shelf:
    """The texts of one scope, and how often rows of it were handed out, and of how many tokens."""

    def __init__(self, scope: str) -> None:
        self.tree, self.texts = RadixTree(scope), Texts()
        self.hits = self.hit_tokens = 0

    @property
    def is_empty(self) -> bool:
        return not self.tree.root.children and not self.texts.leaves()


class Holdings:
    """Nodes of texts that start at position 0, and detached nodes: rows of which it is not known what they rest on.

    All rows are of `layout`. `wanted`: names of the states that relaying needs; empty while that is not known, and any will do.
    `ram_bytes`: what all nodes hold in memory. Each scope has texts of its own; what is found for one is of that one.
    """

    def __init__(self, layout: RowLayout) -> None:
        self.layout = layout
        self.wanted: frozenset[str] = frozenset()
        self._serial = count(1)
        self.clear()

    def clear(self) -> None:
        """Forget everything but which states are wanted."""
        self._shelves: dict[str, Shelf] = {}
        self._n_tidy = 0  # scopes that there were when empty ones were last forgotten
        self.ram_bytes = 0

    # -- finding -----------------------------------------------------------------------------------------------------------

    def root(self, scope: str) -> Node:
        """What texts that start at position 0 are behind; it has no rows."""
        return self._shelf(scope).tree.root

    def nodes(self, scope: str | None = None) -> Iterator[Node]:
        """All nodes that have rows, or those of a scope: parents first, then the detached ones."""
        for shelf in list(self._shelves.values()) if scope is None else [self._shelf(scope)]:
            yield from shelf.tree.nodes()
            yield from (leaf for leaf in shelf.texts.leaves() if leaf.parent is None)

    def start_of(self, tokens: Tokens, scope: str, *, exact: bool) -> tuple[list[Node], int]:
        """How much of `tokens` is stored from position 0 on: the path that holds it, and how many tokens it is."""
        node, n = self._shelf(scope).tree.descend(tokens, exact=exact)
        return node.path(), n

    def overlaps(
        self, tokens: Tokens, start: int, min_length: int, quotes: Sequence[Quote], scope: str
    ) -> list[tuple[Overlap, list[Node]]]:
        """The overlaps to take over into `tokens[start:]`, and the paths that hold them at `offset`: disjoint, ascending."""
        return self._shelf(scope).texts.search(tokens, start, min_length, quotes)

    def answers(self, scope: str) -> list[tuple[Tokens, str]]:
        """The answers that are known to be such, and where each is from; the one used last at the end."""
        found = []
        for node in sorted(self.nodes(scope), key=lambda node: node.used):
            if node.answer is not None and node.answer < node.end:
                path = node.path()
                if path[0].start <= node.answer:
                    tokens = np.concatenate([passed.tokens for passed in path])
                    found.append((tokens[node.answer - path[0].start :], node.origin))
        return found

    def holds(self, node: Node) -> bool:
        """Whether `node` was not dropped."""
        path = node.path()
        if path[0].parent is None:
            return path[0] in self._shelf(node.scope).texts
        return all(passed.parent is not None and passed.parent.children.get(passed.edge) is passed for passed in path)

    def _shelf(self, scope: str) -> Shelf:
        if scope not in self._shelves:
            self._shelves[scope] = Shelf(scope)
        return self._shelves[scope]

    # -- changing ----------------------------------------------------------------------------------------------------------

    def enter(self, behind: Node, tokens: Tokens, *, is_exact: bool) -> tuple[Node, int]:
        """Follow `tokens` from the end of `behind` on, through rows of one exactness. Returns the node that ends with the last token found,
        and how many were found. A node is split if they end inside it.
        """
        last, n = self._shelf(behind.scope).tree.follow(behind, tokens, is_exact=is_exact)
        return (self._end_at(last, behind.end + n) if n else behind), n

    def add(self, parent: Node | None, node: Node) -> Node:
        """Hang `node` behind the end of `parent`, or keep it detached."""
        node.used = next(self._serial)
        self.ram_bytes += node.ram_bytes
        shelf = self._shelf(node.scope)
        if parent is not None:
            shelf.texts.discard(parent)
            shelf.tree.attach(parent, node)
        shelf.texts.add(node)
        return node

    def _end_at(self, node: Node, position: int) -> Node:
        """A node that ends at `position`, which is in `node` or at its end."""
        if position == node.end:
            return node
        self._let_go(node)
        return self._shelf(node.scope).tree.split(node, position)

    def _let_go(self, node: Node) -> None:
        """If the rows are still being loaded, keep only the file."""
        if node.rows is not None and not node.rows.is_whole:
            self.set_rows(node, None)

    def set_rows(self, node: Node, rows: Rows | None) -> None:
        """What `node` holds in memory from now on; without rows and file it must be dropped."""
        self.ram_bytes -= node.ram_bytes
        node.rows = rows
        self.ram_bytes += node.ram_bytes

    def renew(self, node: Node, rows: Rows) -> None:
        """`rows` of the same tokens take the place of `node`'s; its file holds the old ones and serves it no longer."""
        self.set_rows(node, rows)
        node.captured, node.file = captured_rows(rows, self.wanted), None

    def want(self, names: frozenset[str]) -> None:
        """Relaying needs these states from now on: what was captured under another profile counts as not captured."""
        if names == self.wanted:
            return
        self.wanted = names
        for node in self.nodes():
            if node.rows is not None:
                node.captured = captured_rows(node.rows, names)
            elif node.file is not None:
                node.captured = node.file.captured(names)[node.file_offset :][: len(node.tokens)]

    def hits(self, scope: str) -> tuple[int, int]:
        """How often rows of the scope were handed out, and of how many tokens."""
        shelf = self._shelf(scope)
        return shelf.hits, shelf.hit_tokens

    def note_hit(self, scope: str, n: int) -> None:
        """Rows of `n` tokens of the scope were handed out."""
        shelf = self._shelf(scope)
        shelf.hits, shelf.hit_tokens = shelf.hits + 1, shelf.hit_tokens + n

    def touch(self, node: Node) -> None:
        """`node` and what leads to it were used."""
        serial = next(self._serial)
        for passed in node.path():
            passed.used = serial

    def drop(self, node: Node) -> None:
        """Forget `node` and all behind it."""
        shelf = self._shelf(node.scope)
        for member in node.family():
            shelf.texts.discard(member)
            self.ram_bytes -= member.ram_bytes
        parent = node.parent
        if parent is not None:
            del parent.children[node.edge]
            if not parent.children and parent is not shelf.tree.root:
                shelf.texts.add(parent)

    def tidy(self) -> None:
        """Forget scopes that hold nothing any more. Nobody may hold a root meanwhile."""
        if len(self._shelves) > 2 * self._n_tidy + FEW_SCOPES:
            self._shelves = {scope: shelf for scope, shelf in self._shelves.items() if not shelf.is_empty}
            self._n_tidy = len(self._shelves)

    def forget_file(self, file: RowFile) -> None:
        """The file is gone. Nodes whose rows are not whole in memory go with it."""
        users = [node for node in self.nodes() if node.file is file]
        for node in users:
            self._let_go(node)
            node.file = None
        for node in users:
            if node.rows is None and self.holds(node):
                self.drop(node)

    def replace_file(self, old: RowFile, new: RowFile) -> None:
        """The file was written anew: it has the same name, so rows of the same tokens."""
        for node in self.nodes():
            if node.file is old:
                node.file = new

    def absorb(self, file: RowFile) -> None:
        """Take in a file: as the nodes that its tokens lead to, or detached if what leads to them is not here."""
        parent = self._end_of_lead(file) if file.header.is_rooted else None
        if parent is None:
            self.add(None, Node.of_file(file, file.captured(self.wanted), 0))
            return
        last, n = self.enter(parent, file.own_tokens, is_exact=file.header.is_exact)
        node = last
        while node is not parent and node.parent is not None:
            if node.file is None:
                node.file, node.file_offset = file, node.start - file.header.position
            node = node.parent
        if n < file.header.n:
            self.add(last, Node.of_file(file, file.captured(self.wanted), n))
        elif last.answer is None:
            last.answer = file.header.answer

    def _end_of_lead(self, file: RowFile) -> Node | None:
        """The node that ends with the tokens that lead to the file's rows, None if these are not all here."""
        node, position = self.root(file.header.scope), 0
        ends = (min(file.header.n_exact, file.header.position), file.header.position)
        for end, is_exact in zip(ends, (True, False), strict=True):
            node, n = self._shelf(file.header.scope).tree.follow(node, file.tokens[position:end], is_exact=is_exact)
            if position + n < end:
                return None
            node = self._end_at(node, end)
            position = end
        return node
