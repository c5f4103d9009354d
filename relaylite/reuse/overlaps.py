"""`OverlapIndex`: stored texts by the hashes of their tokens, and every `Overlap` of a prompt with them. It knows ids only, no rows.

Every text is cut into tiles of `window` tokens, whose hashes lie sorted. Any `2 * window - 1` tokens in a row hold a whole tile, so looking
up the hash of every window of a prompt misses no overlap of that length. Tiles that follow one another are joined, compared token by token,
and grown at both ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relaylite.reuse.rows import Tokens

GAP = -1  # stands between texts in the arena; no token has this id
MAX_GROWTH = 16  # tiles that are not looked up, at either end of those that are
MAX_TILES = 64  # of one hash, the newest are tried; more occur only in text that repeats itself


@dataclass(frozen=True, slots=True)
class Overlap:
    """Prompt tokens `[start, start + n)` equal tokens `[offset, offset + n)` of text `key`. Of equally long ones the higher `rank` wins."""

    start: int
    n: int
    key: int
    offset: int
    rank: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        return self.start + self.n

    def within(self, start: int, end: int) -> Overlap:
        """The part at prompt positions `[start, end)`."""
        first, last = max(start, self.start), min(end, self.end)
        return Overlap(first, last - first, self.key, self.offset + first - self.start, self.rank)

    def moved(self, by: int) -> Overlap:
        """The same tokens, `by` positions further in the prompt."""
        return Overlap(self.start + by, self.n, self.key, self.offset, self.rank)


def window_for(min_length: int) -> int:
    """The widest window that finds every overlap of `min_length` tokens."""
    return max(1, (min_length + 1) // 2)


class OverlapIndex:
    """Texts by key, and what a prompt shares with them. Keys are never used twice. Bytes will do as tokens."""

    _arena: Tokens  # all texts, a gap before each and after the last
    _used: int
    _dead: int  # of the tokens in use, those of discarded texts
    _texts: dict[int, tuple[int, int]]  # key → place in the arena, length
    _starts: list[int]  # places of all texts ever added, ascending, and their keys
    _keys: list[int]
    _hashes: npt.NDArray[np.uint64]  # of all tiles, ascending, and where these stand in the arena
    _tiles: npt.NDArray[np.int64]

    def __init__(self, window: int, max_repeats: int | None = None) -> None:
        """`max_repeats`: what a prompt says more often is not looked up, but is found where it goes on from other shared tokens."""
        self.window, self._max_repeats = window, max_repeats
        self._mixers = np.cumprod(np.full(window, 0xD6E8FEB86659FD93, np.uint64))
        self._clear()

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, key: int, tokens: Tokens) -> None:
        """Make the text findable; `key` must be new. O(tiles) with a small constant: the sorted hashes are copied once."""
        start, n = self._used, len(tokens)
        self._reserve(n + 1)
        self._arena[start : start + n] = tokens
        self._used += n + 1  # the gap after it is already there
        self._texts[key] = (start, n)
        self._starts.append(start)
        self._keys.append(key)
        n_tiles = n // self.window
        hashes = self._mix(tokens[: n_tiles * self.window]).reshape(n_tiles, self.window) @ self._mixers
        order = np.argsort(hashes, kind="stable")
        slots = np.searchsorted(self._hashes, hashes[order], side="right")  # newer tiles stand after older ones
        self._hashes = np.insert(self._hashes, slots, hashes[order])
        self._tiles = np.insert(self._tiles, slots, start + order * self.window)

    def discard(self, key: int) -> None:
        """Forget the text, if it is there."""
        start, n = self._texts.pop(key, (0, -1))
        if n < 0:
            return
        keep = (self._tiles < start) | (self._tiles >= start + n)
        self._hashes, self._tiles = self._hashes[keep], self._tiles[keep]
        self._dead += n + 1
        if self._dead > self._used // 2:
            self._compact()

    def find(self, tokens: Tokens, min_length: int) -> list[Overlap]:
        """All overlaps of at least `min_length` tokens that cannot grow at either end, in no order, without ranks.

        None is missed if `min_length >= 2 * window - 1`.
        """
        at, tile = self._tile_pairs(tokens)
        if not len(at):
            return []
        starts, places, lengths = self._join(tokens, at, tile)
        long_enough = lengths >= min_length
        starts, places, lengths = starts[long_enough], places[long_enough], lengths[long_enough]
        text = np.searchsorted(np.asarray(self._starts), places, side="right") - 1
        found = zip(starts.tolist(), lengths.tolist(), text.tolist(), places.tolist(), strict=True)
        return [Overlap(start, n, self._keys[i], place - self._starts[i]) for start, n, i, place in found]

    def _tile_pairs(self, tokens: Tokens) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Prompt positions and arena positions of equal tiles, checked token by token, ordered along diagonals."""
        none = np.empty(0, np.int64)
        if len(tokens) < self.window or not len(self._hashes):
            return none, none
        windows = np.asarray(np.lib.stride_tricks.sliding_window_view(self._mix(tokens), self.window) @ self._mixers, np.uint64)
        order = np.argsort(windows)  # looked up in ascending order, they take half the time
        order = order if self._max_repeats is None else order[_repeats(windows[order]) <= self._max_repeats]
        first = np.zeros(len(windows), np.int64)
        first[order] = np.searchsorted(self._hashes, windows[order], side="left")
        known = np.flatnonzero(self._hashes[np.minimum(first, len(self._hashes) - 1)] == windows)  # few, where little is shared
        last = np.searchsorted(self._hashes, windows[known], side="right")
        counts = np.minimum(last - first[known], MAX_TILES)
        at = np.repeat(known, counts)
        nth = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
        tile = self._tiles[np.repeat(last, counts) - 1 - nth]
        inside = np.arange(self.window)
        equal = (tokens[at[:, None] + inside] == self._arena[tile[:, None] + inside]).all(axis=1)
        at, tile = at[equal], tile[equal]
        order = np.lexsort((at, tile - at))
        return at[order], tile[order]

    def _join(
        self, tokens: Tokens, at: npt.NDArray[np.int64], tile: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Tiles that follow one another on a diagonal, joined and grown at both ends: starts in prompt, places in arena, lengths."""
        diagonal = tile - at
        first = np.ones(len(at), bool)
        first[1:] = (diagonal[1:] != diagonal[:-1]) | (at[1:] != at[:-1] + self.window)
        heads = np.flatnonzero(first)
        starts, places = at[heads], tile[heads]
        lengths = np.diff(np.append(heads, len(at))) * self.window
        prompt = np.full(len(tokens) + 2, GAP - 1, np.int64)  # its edges equal nothing in the arena
        prompt[1:-1] = tokens
        for _ in range(self.window - 1 if self._max_repeats is None else MAX_GROWTH * self.window):
            before = prompt[starts] == self._arena[places - 1]
            starts, places, lengths = starts - before, places - before, lengths + before
            behind = prompt[starts + lengths + 1] == self._arena[places + lengths]
            lengths = lengths + behind
            if not (before.any() or behind.any()):
                break
        if self._max_repeats is None:
            return starts, places, lengths
        distinct = np.unique(starts * len(self._arena) + places, return_index=True)[1]  # some have grown into one another
        return starts[distinct], places[distinct], lengths[distinct]

    def _mix(self, tokens: Tokens) -> npt.NDArray[np.uint64]:
        mixed = tokens.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return mixed ^ (mixed >> np.uint64(29))

    def _reserve(self, n: int) -> None:
        if self._used + n > len(self._arena):
            grown = np.full(2 * (self._used + n), GAP, np.int32)
            grown[: self._used] = self._arena[: self._used]
            self._arena = grown

    def _clear(self) -> None:
        self._arena = np.full(1024, GAP, np.int32)
        self._used, self._dead = 1, 0  # a gap stands before the first text
        self._texts, self._starts, self._keys = {}, [], []
        self._hashes, self._tiles = np.empty(0, np.uint64), np.empty(0, np.int64)

    def _compact(self) -> None:
        alive = [(key, self._arena[start : start + n].copy()) for key, (start, n) in self._texts.items()]
        self._clear()
        for key, tokens in alive:
            self.add(key, tokens)


def _repeats(ordered: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """How often each of the ascending values is there."""
    edges = np.flatnonzero(np.diff(ordered, prepend=~ordered[:1], append=~ordered[-1:]))
    counts = np.diff(edges)
    return np.repeat(counts, counts)
