"""`Texts`: the stored texts as a whole, one for each leaf of the tree, and what a prompt shares with them."""

from __future__ import annotations

from itertools import count, takewhile

import numpy as np

from relaylite.reuse.rows import Tokens
from relaylite.store.captured import ranges
from relaylite.store.gaps import Gaps
from relaylite.store.overlaps import Overlap, OverlapIndex, window_for
from relaylite.store.radix import Node

MAX_EQUAL = 8  # overlaps with the very same prompt tokens that are looked at closely


class Texts:
    """Leaves by key. A leaf stands for all tokens on its path."""

    def __init__(self) -> None:
        self._leaves: dict[int, Node] = {}
        self._keys: dict[Node, int] = {}
        self._indexes: dict[int, OverlapIndex] = {}
        self._next = count()

    def __contains__(self, node: Node) -> bool:
        return node in self._keys

    def leaves(self) -> list[Node]:
        return list(self._keys)

    def add(self, leaf: Node) -> None:
        key = next(self._next)
        self._leaves[key], self._keys[leaf] = leaf, key
        for index in self._indexes.values():
            index.add(key, _tokens(leaf))

    def discard(self, leaf: Node) -> None:
        """Forget the text, if it is there."""
        key = self._keys.pop(leaf, None)
        if key is not None:
            del self._leaves[key]
            for index in self._indexes.values():
                index.discard(key)

    def search(self, tokens: Tokens, start: int, min_length: int) -> list[tuple[Overlap, list[Node]]]:
        """The overlaps to take over into `tokens[start:]`, and the paths that hold them at `offset`: disjoint, ascending.

        Tokens with captured hidden states come first, then exact rows, then any: what was relayed already gathers losses if it is
        relayed again. Among these the longest overlap, among equally long ones exact rows, then those used last.
        """
        found = self._index(window_for(min_length)).find(tokens[start:], min_length)
        paths = {overlap.key: self._leaves[overlap.key].path() for overlap in found}
        ranked = _foremost([_ranked(overlap, paths[overlap.key], start) for overlap in found])
        gaps, taken = Gaps(start, len(tokens)), []
        for parts_of in (_captured_parts, _exact_parts, _whole):
            parts = [part for overlap in ranked for part in parts_of(overlap, paths[overlap.key])]
            taken += gaps.fill(parts, min_length)
        return [(overlap, paths[overlap.key]) for overlap in sorted(taken, key=lambda overlap: overlap.start)]

    def _index(self, window: int) -> OverlapIndex:
        if window not in self._indexes:
            index = self._indexes[window] = OverlapIndex(window)
            for key, leaf in self._leaves.items():
                index.add(key, _tokens(leaf))
        return self._indexes[window]


def _tokens(leaf: Node) -> Tokens:
    return np.concatenate([node.tokens for node in leaf.path()])


def _ranked(overlap: Overlap, path: list[Node], start: int) -> Overlap:
    """An overlap with `tokens[start:]` as one with `tokens`, with its rank."""
    first = path[0].start + overlap.offset
    is_exact = all(node.holds_exact for node in path if node.start < first + overlap.n and node.end > first)
    return Overlap(start + overlap.start, overlap.n, overlap.key, overlap.offset, (is_exact, path[-1].used))


def _foremost(overlaps: list[Overlap]) -> list[Overlap]:
    """Of overlaps with the very same prompt tokens, those of highest rank: a task stands in hundreds of prompts."""
    of_place: dict[tuple[int, int], list[Overlap]] = {}
    for overlap in overlaps:
        of_place.setdefault((overlap.start, overlap.n), []).append(overlap)
    return [best for same in of_place.values() for best in sorted(same, key=lambda overlap: overlap.rank)[-MAX_EQUAL:]]


def _captured_parts(overlap: Overlap, path: list[Node]) -> list[Overlap]:
    """The stretches of `overlap` whose hidden states were captured."""
    first = path[0].start + overlap.offset
    masks = [node.captured[max(first - node.start, 0) : first + overlap.n - node.start] for node in path if node.end > first]
    mask = np.concatenate(masks)[: overlap.n]
    stretches = ranges(mask) if mask.any() else []
    return [overlap.within(overlap.start + start, overlap.start + end) for start, end in stretches]


def _exact_parts(overlap: Overlap, path: list[Node]) -> list[Overlap]:
    """The tokens of `overlap` that have exact rows; in a text these come before the others."""
    n_exact = max((node.end for node in takewhile(lambda node: node.holds_exact, path)), default=path[0].start)
    n_exact -= path[0].start + overlap.offset
    return [overlap.within(overlap.start, overlap.start + n_exact)] if n_exact > 0 else []


def _whole(overlap: Overlap, _: list[Node]) -> list[Overlap]:
    return [overlap]
