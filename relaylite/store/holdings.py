"""`Holdings`: what a store has, kept consistent. The tree, the texts in it, and the bytes in memory; decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from relaylite.reuse.rows import Rows
from relaylite.store.captured import captured_rows
from relaylite.store.radix import Node, RadixTree
from relaylite.store.rowfile import RowFile
from relaylite.store.texts import Texts


class Holdings:
    """Nodes of rooted texts in `tree`, and single nodes of runs of which it is not known what they rest on.

    `wanted`: names of the states that relaying needs; empty while that is not known, and any will do.
    """

    def __init__(self) -> None:
        self.tree = RadixTree()
        self.texts = Texts()
        self.ram_bytes = 0
        self.wanted: frozenset[str] = frozenset()
        self._serial = count(1)

    def nodes(self) -> Iterator[Node]:
        yield from self.tree.nodes()
        yield from (leaf for leaf in self.texts.leaves() if leaf.parent is None)

    def add(self, parent: Node | None, node: Node) -> Node:
        """Hang `node` behind the end of `parent`, or keep it detached."""
        node.used = next(self._serial)
        self.ram_bytes += node.ram_bytes
        if parent is not None:
            self.texts.discard(parent)
            self.tree.attach(parent, node)
        self.texts.add(node)
        return node

    def end_at(self, node: Node, position: int) -> Node:
        """A node that ends at `position`, which is in `node` or at its end."""
        if position == node.end:
            return node
        self._let_go(node)
        return self.tree.split(node, position)

    def _let_go(self, node: Node) -> None:
        """Of rows that are still being loaded only the file is kept."""
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

    def touch(self, node: Node) -> None:
        """`node` and what leads to it were used."""
        serial = next(self._serial)
        for passed in node.path():
            passed.used = serial

    def drop(self, node: Node) -> None:
        """Forget `node` and all behind it."""
        for member in node.family():
            self.texts.discard(member)
            self.ram_bytes -= member.ram_bytes
        parent = node.parent
        if parent is not None:
            del parent.children[node.edge]
            if not parent.children and parent is not self.tree.root:
                self.texts.add(parent)

    def forget_file(self, file: RowFile) -> None:
        """The file is gone: nodes whose rows are not whole in memory go with it."""
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
        position = file.header.position
        last, n = self.tree.follow(parent, file.own_tokens, is_exact=file.header.is_exact)
        if n:
            last = self.end_at(last, position + n)
        node = last
        while node is not parent and node.parent is not None:
            if node.file is None:
                node.file, node.file_offset = file, node.start - position
            node = node.parent
        if n < file.header.n:
            self.add(last, Node.of_file(file, file.captured(self.wanted), n))

    def _end_of_lead(self, file: RowFile) -> Node | None:
        node, position = self.tree.root, 0
        ends = (min(file.header.n_exact, file.header.position), file.header.position)
        for end, is_exact in zip(ends, (True, False), strict=True):
            node, n = self.tree.follow(node, file.tokens[position:end], is_exact=is_exact)
            if position + n < end:
                return None
            node = self.end_at(node, end)
            position = end
        return node

    def holds(self, node: Node) -> bool:
        """Whether `node` was not dropped."""
        path = node.path()
        if path[0].parent is None:
            return path[0] in self.texts
        return all(passed.parent is not None and passed.parent.children.get(passed.edge) is passed for passed in path)
