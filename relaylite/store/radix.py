"""`RadixTree`: stored texts by the token ids that they begin with. What they share is there once. Knows no budget and reads no file.

A `Node` stands for the rows of some tokens behind those of its parents, either all exact or all relayed. A node has at most two children
that begin with the same token: one exact, one relayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from relaylite.reuse.rows import Mask, Rows, Tokens, common_length
from relaylite.store.rowfile import RowFile
from relaylite.store.worth import Uses


@dataclass(eq=False, slots=True)
class Node:
    """Rows of positions `[start, end)` behind `parent`'s: in memory (`rows`), in `file` from its row `file_offset` on, or both.

    `is_exact`: whether they were computed exactly (`reuse.rows` says what that means); `holds_exact`: whether they still are exact, since
    smaller codecs lose something. `captured`: which of them have the states that relaying needs. `parent` is None for the tree's root,
    which has no rows, and for rows of which it is not known what they rest on. `scope`: the mark of those who may use the rows. `answer`:
    the position from which on the tokens up to the node's end are an answer, if they are.
    """

    tokens: Tokens
    start: int
    is_exact: bool
    captured: Mask
    origin: str
    rows: Rows | None = None
    file: RowFile | None = None
    file_offset: int = 0
    parent: Node | None = None
    children: dict[tuple[int, bool], Node] = field(default_factory=dict)
    used: int = 0  # serial of the last put or hit
    uses: Uses = field(default_factory=Uses)
    scope: str = ""
    answer: int | None = None

    @classmethod
    def of_rows(cls, rows: Rows, captured: Mask, *, is_exact: bool, scope: str) -> Node:
        return cls(rows.tokens, rows.position, is_exact, captured, rows.origin, rows, scope=scope)

    @classmethod
    def of_file(cls, file: RowFile, captured: Mask, offset: int) -> Node:
        """The rows of `file` from its row `offset` on."""
        header = file.header
        tokens, position = file.own_tokens[offset:], header.position + offset
        node = cls(tokens, position, header.is_exact, captured[offset:], header.origin, None, file, offset)
        node.scope, node.answer = header.scope, header.answer
        return node

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)

    @property
    def edge(self) -> tuple[int, bool]:
        return int(self.tokens[0]), self.is_exact

    @property
    def holds_exact(self) -> bool:
        """Whether the rows that there are now are exact."""
        if self.rows is not None:
            return self.is_exact and self.rows.n_exact == len(self.rows)
        return self.is_exact and self.file is not None and self.file.header.is_exact

    @property
    def ram_bytes(self) -> int:
        return self.rows.n_bytes if self.rows is not None else 0

    def path(self) -> list[Node]:
        """The nodes from the first to this one, without the tree's root."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None and len(node.tokens):
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def family(self) -> Iterator[Node]:
        """This node and all behind it, parents first."""
        front = [self]
        while front:
            node = front.pop()
            front.extend(node.children.values())
            yield node


class RadixTree:
    """Nodes of texts that start at position 0."""

    def __init__(self, scope: str) -> None:
        self.root = Node(np.empty(0, np.int32), 0, True, np.empty(0, bool), "", scope=scope)

    def descend(self, tokens: Tokens, *, exact: bool) -> tuple[Node, int]:
        """How much of `tokens` is stored from position 0 on: the node in which that ends, and how many tokens it is.

        With `exact`, only nodes that hold exact rows are entered. Else relayed rows are entered where they lead further than exact ones.
        """
        best = (self.root, 0)
        front = [(self.root, 0)]
        while front:
            node, n = front.pop()
            if n > best[1]:
                best = (node, n)
            if n < node.end or n == len(tokens):
                continue
            for is_exact in (False, True):  # exact ones last: they are tried first, and win a tie
                child = node.children.get((int(tokens[n]), is_exact))
                if child is not None and (child.holds_exact or not exact):
                    front.append((child, n + common_length(child.tokens, tokens[n:])))
        return best

    def follow(self, node: Node, tokens: Tokens, *, is_exact: bool) -> tuple[Node, int]:
        """Follow `tokens` from the end of `node` on, through rows of one exactness: the last node entered, and how many were found."""
        n = 0
        while n < len(tokens):
            child = node.children.get((int(tokens[n]), is_exact))
            if child is None:
                break
            n_alike = common_length(child.tokens, tokens[n:])
            node, n = child, n + n_alike
            if n_alike < len(child.tokens):
                break
        return node, n

    def split(self, node: Node, position: int) -> Node:
        """Part `node` at `position`, inside it. Returns the new node, which holds what lies before. Bytes held stay the same."""
        parent, cut, n = node.parent, position - node.start, len(node.tokens)
        if parent is None or not 0 < cut < n:
            raise ValueError(f"{position} is not inside [{node.start}, {node.end})")
        head = Node(
            node.tokens[:cut],
            node.start,
            node.is_exact,
            node.captured[:cut],
            node.origin,
            node.rows.slice(0, cut) if node.rows is not None else None,
            node.file,
            node.file_offset,
            used=node.used,
            uses=node.uses.copy(),
            scope=node.scope,
        )
        edge = node.edge
        node.rows = node.rows.slice(cut, n) if node.rows is not None else None
        node.tokens, node.captured = node.tokens[cut:], node.captured[cut:]
        node.start, node.file_offset = position, node.file_offset + cut
        self.attach(head, node)
        head.parent = parent
        parent.children[edge] = head
        return head

    def attach(self, parent: Node, child: Node) -> None:
        child.parent = parent
        parent.children[child.edge] = child

    def nodes(self) -> Iterator[Node]:
        """All nodes but the root, parents first."""
        return (node for node in self.root.family() if node is not self.root)
