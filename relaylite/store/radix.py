"""`RadixTree`: stored rows by the token ids that lead to them. Which rows follow which; it knows no budget and no file.

A `Node` holds the rows of one run behind the runs of its parents, either all exact or all relayed, and no two children of
a node begin with the same token and exactness: what texts share is stored once. Only leaves can be removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from relaylite.rows import Rows, Tokens


@dataclass(eq=False, slots=True)
class Node:
    """Rows of positions `[start, end)` behind `parent`'s. `parent` is None for roots: the tree's, and detached runs'."""

    rows: Rows
    is_exact: bool
    parent: Node | None = None
    children: dict[tuple[int, bool], Node] = field(default_factory=dict)
    used: int = 0  # serial of the last put or hit

    @property
    def tokens(self) -> Tokens:
        return self.rows.tokens

    @property
    def start(self) -> int:
        return self.rows.position

    @property
    def end(self) -> int:
        return self.rows.position + len(self.rows)

    @property
    def edge(self) -> tuple[int, bool]:
        return int(self.rows.tokens[0]), self.is_exact

    def path(self) -> list[Node]:
        """The nodes from the first to this one, without the tree's root."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None and len(node.rows):
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


def common_length(a: Tokens, b: Tokens) -> int:
    """How many tokens `a` and `b` begin with alike."""
    n = min(len(a), len(b))
    differs = np.flatnonzero(a[:n] != b[:n])
    return int(differs[0]) if len(differs) else n


class RadixTree:
    """Rows of texts that start at position 0."""

    def __init__(self, root: Node) -> None:
        self.root = root

    def descend(self, tokens: Tokens, *, exact: bool) -> tuple[Node, int]:
        """The node in which the longest stored run that `tokens` begins with ends, and the run's length.

        With `exact`, relayed rows are not entered; else they are where they lead further than exact ones.
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
                if child is not None and (is_exact or not exact):
                    front.append((child, n + common_length(child.tokens, tokens[n:])))
        return best

    def follow(self, node: Node, tokens: Tokens, *, is_exact: bool) -> tuple[Node, int]:
        """Go on from the end of `node` by rows of one exactness: the last node entered, and how many of `tokens` are there."""
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
        """Part `node` at `position`, inside it; the new node holds what lies before and is returned."""
        parent = node.parent
        assert parent is not None and node.start < position < node.end
        edge, cut, n = node.edge, position - node.start, len(node.rows)
        head = Node(node.rows.slice(0, cut), node.is_exact, parent, used=node.used)
        node.rows, node.parent = node.rows.slice(cut, n), head
        head.children[node.edge] = node
        parent.children[edge] = head
        return head

    def attach(self, parent: Node, child: Node) -> None:
        child.parent = parent
        parent.children[child.edge] = child

    def remove(self, leaf: Node) -> None:
        assert not leaf.children and leaf.parent is not None
        del leaf.parent.children[leaf.edge]

    def nodes(self) -> Iterator[Node]:
        """All nodes but the root, parents first."""
        front = [self.root]
        while front:
            node = front.pop()
            front.extend(node.children.values())
            if node is not self.root:
                yield node
