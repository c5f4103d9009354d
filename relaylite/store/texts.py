"""`Texts`: the stored texts as a whole, one for each leaf, and the runs in them that a prompt holds again."""

from __future__ import annotations

from itertools import count, takewhile

import numpy as np

from relaylite.reuse.rows import Tokens
from relaylite.store.captured import ranges
from relaylite.store.choice import Candidate, Gaps, choose
from relaylite.store.radix import Node
from relaylite.store.runs import Run, RunIndex, window_for

MAX_EQUAL = 8  # stored runs of the very same prompt tokens that are looked at closely


class Texts:
    """Leaves by key. A leaf stands for all tokens on its path."""

    def __init__(self) -> None:
        self._leaves: dict[int, Node] = {}
        self._keys: dict[Node, int] = {}
        self._indexes: dict[int, RunIndex] = {}
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

    def search(self, tokens: Tokens, start: int, min_length: int) -> list[tuple[Candidate, list[Node]]]:
        """The runs to take over into `tokens[start:]`, and the paths that hold them at `offset`: disjoint, ascending.

        Tokens with captured hidden states come first, then exact rows, then any: what was relayed already gathers losses if it is
        relayed again. Among these the longest run, among equally long ones exact rows, then those used last.
        """
        runs = self._index(window_for(min_length)).find(tokens[start:], min_length)
        paths = {run.key: self._leaves[run.key].path() for run in runs}
        candidates = _foremost([_candidate(run, paths[run.key], start) for run in runs])
        gaps, chosen = Gaps(start, len(tokens)), []
        for parts_of in (_captured_parts, _exact_parts, _whole):
            parts = [part for candidate in candidates for part in parts_of(candidate, paths[candidate.key])]
            chosen += choose(parts, min_length, gaps)
        return [(candidate, paths[candidate.key]) for candidate in sorted(chosen, key=lambda c: c.start)]

    def _index(self, window: int) -> RunIndex:
        if window not in self._indexes:
            index = self._indexes[window] = RunIndex(window)
            for key, leaf in self._leaves.items():
                index.add(key, _tokens(leaf))
        return self._indexes[window]


def _tokens(leaf: Node) -> Tokens:
    return np.concatenate([node.tokens for node in leaf.path()])


def _candidate(run: Run, path: list[Node], start: int) -> Candidate:
    first = path[0].start + run.offset
    is_exact = all(node.holds_exact for node in path if node.start < first + run.n and node.end > first)
    return Candidate(start + run.start, run.n, run.key, run.offset, (is_exact, path[-1].used))


def _foremost(candidates: list[Candidate]) -> list[Candidate]:
    """Of candidates for the very same tokens, those of highest rank: a task stands in hundreds of prompts."""
    of_place: dict[tuple[int, int], list[Candidate]] = {}
    for candidate in candidates:
        of_place.setdefault((candidate.start, candidate.n), []).append(candidate)
    return [best for same in of_place.values() for best in sorted(same, key=lambda c: c.rank)[-MAX_EQUAL:]]


def _captured_parts(candidate: Candidate, path: list[Node]) -> list[Candidate]:
    """The stretches of `candidate` whose hidden states were captured."""
    first = path[0].start + candidate.offset
    masks = [node.captured[max(first - node.start, 0) : first + candidate.n - node.start] for node in path if node.end > first]
    mask = np.concatenate(masks)[: candidate.n]
    stretches = ranges(mask) if mask.any() else []
    return [candidate.within(candidate.start + start, candidate.start + end) for start, end in stretches]


def _exact_parts(candidate: Candidate, path: list[Node]) -> list[Candidate]:
    """The tokens of `candidate` that have exact rows; in a text these come before the others."""
    n_exact = max((node.end for node in takewhile(lambda node: node.holds_exact, path)), default=path[0].start)
    n_exact -= path[0].start + candidate.offset
    return [candidate.within(candidate.start, candidate.start + n_exact)] if n_exact > 0 else []


def _whole(candidate: Candidate, _: list[Node]) -> list[Candidate]:
    return [candidate]
