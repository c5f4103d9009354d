"""`Texts`: the stored texts as a whole, one for each leaf of the tree, and what a prompt shares with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count, takewhile

import numpy as np

from relaylite.reuse.gaps import Gaps
from relaylite.reuse.overlaps import Overlap, OverlapIndex, window_for
from relaylite.reuse.plan import Quote
from relaylite.reuse.planner import MIN_QUOTED
from relaylite.reuse.rows import Tokens
from relaylite.store.captured import ranges
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

    def search(self, tokens: Tokens, start: int, min_length: int, quotes: Sequence[Quote] = ()) -> list[tuple[Overlap, list[Node]]]:
        """The overlaps to take over into `tokens[start:]`, and the paths that hold them at `offset`: disjoint, ascending.

        Tokens with captured hidden states come first, then exact rows, then any: what was relayed already gathers losses if it is
        relayed again. Among these the longest overlap, among equally long ones exact rows, then those used last. What is left of
        `quotes` is filled in the same order, from texts that share `min_length` tokens with the text that they quote.
        """
        gaps, taken = Gaps(start, len(tokens)), []
        found = self._find(tokens[start:], min_length)
        for overlaps, least in (
            ([each.moved(start) for each in found], min_length),
            (self._quoted(tokens, min_length, quotes), MIN_QUOTED),
        ):
            ranked = _foremost([self._ranked(overlap) for overlap in overlaps])
            for parts_of in (_captured_parts, _exact_parts, _whole):
                taken += gaps.fill([part for overlap in ranked for part in parts_of(overlap, self._leaves[overlap.key].path())], least)
        return [(overlap, self._leaves[overlap.key].path()) for overlap in sorted(taken, key=lambda overlap: overlap.start)]

    def _find(self, tokens: Tokens, min_length: int) -> list[Overlap]:
        return self._index(window_for(min_length)).find(tokens, min_length)

    def _quoted(self, tokens: Tokens, min_length: int, quotes: Sequence[Quote]) -> list[Overlap]:
        """The overlaps of each quote with the texts that hold at least `min_length` tokens of the text that it quotes."""
        found_of: dict[tuple[int, ...], list[Overlap]] = {}
        overlaps: list[Overlap] = []
        for quote in quotes:
            whole = np.asarray(quote.text, np.int32)
            if not np.array_equal(tokens[quote.start : quote.end], whole[quote.offset :][: quote.end - quote.start]):
                continue
            if quote.text not in found_of:
                found_of[quote.text] = self._find(whole, min_length)
            inner = (quote.offset, quote.offset + quote.end - quote.start)
            parts = [found.within(*inner) for found in found_of[quote.text]]
            overlaps += [part.moved(quote.start - quote.offset) for part in parts if part.n >= MIN_QUOTED]
        return overlaps

    def _ranked(self, overlap: Overlap) -> Overlap:
        path = self._leaves[overlap.key].path()
        first = path[0].start + overlap.offset
        is_exact = all(node.holds_exact for node in path if node.start < first + overlap.n and node.end > first)
        return replace(overlap, rank=(is_exact, path[-1].used))

    def _index(self, window: int) -> OverlapIndex:
        if window not in self._indexes:
            index = self._indexes[window] = OverlapIndex(window)
            for key, leaf in self._leaves.items():
                index.add(key, _tokens(leaf))
        return self._indexes[window]


def _tokens(leaf: Node) -> Tokens:
    return np.concatenate([node.tokens for node in leaf.path()])


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
