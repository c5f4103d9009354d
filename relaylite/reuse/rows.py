"""`Rows` of tokens that were computed one after another, copied from the cache and ready to be placed again; `RowLayout`, their sizes.

A *row* is one token's K or V in one layer. `Rows` is a plain value that knows neither llama.cpp nor files; its `loading` may read some.

Rows are *exact* if they were computed from the tokens from position 0 on and from nothing else, by llama.cpp or by slices of its graph.
They differ from any other such computation by rounding. A row attends to all rows before it, so no row behind a relayed one is exact: the
exact ones come first, and one number says how many they are. All others count as relayed, even where the tokens themselves were computed.

- `Rows.n_exact`, `Segment.n_exact`: so many tokens from the first one on have exact rows.
- `Plan.n_exact`: so many tokens of a prompt will have them: those before the first span, and before the first inexact row of the prefix.
- `LiveSequence.exact_until`: the rows in the cache before this position are exact. `harvest` hands it on as `Rows.n_exact`.
- `Node.is_exact` in the store: all its rows were exact when they were put, else none. `Node.holds_exact`: they are so still, which rows
  in a file of a smaller codec are not.
- `Header.n_exact` in a file: so many tokens from position 0 on. `Header.is_exact`: all rows of the file are exact as they lie in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from relaylite.reuse.row_loading import Loading

Tokens = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

_EXPONENT = np.uint16(0x7C00)  # all ones in an F16 that is infinite or not a number


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Bytes of one token's K row and of its V row in every layer of one context; both empty for a cache that cannot be read.

    `fingerprint` names everything that must be equal for rows to be interchangeable: weights, KV types,
    RoPE settings, adapters. Rows of another fingerprint are never placed.
    """

    k_bytes: tuple[int, ...]
    v_bytes: tuple[int, ...]
    fingerprint: str

    @property
    def n_layer(self) -> int:
        return len(self.k_bytes)

    @property
    def token_bytes(self) -> int:
        """Bytes of all rows of one token."""
        return sum(self.k_bytes) + sum(self.v_bytes)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of `tokens` (int32 `[n]`), which stood at positions `[position, position + n)` of some context.

    `data` is uint8 `[n · token_bytes]`, layer-major: K of layer 0 for all tokens (`[n, k_bytes[0]]`), K of layer 1, …,
    then V of layer 0, …. K is rotated for the positions given here. While `loading` is not done, layers that it has not brought are
    undefined. `k`, `v` and `slice` bring what they need, and may raise Damaged; before `data` is used, call `bring`.
    `states` maps a capture name (`"l_in-<il>"`, `"attn-<il>"`) to float16 `[n, width]`; a token that was not captured holds NaN.
    The rows of the first `n_exact` tokens are exact. `origin` says whose turn these rows are of: an agent's name, or "" if they are of no
    turn. Raises ValueError if `data` has another size, or `n_exact` is outside `[0, n]`.
    """

    tokens: Tokens
    position: int
    n_exact: int
    data: npt.NDArray[np.uint8]
    layout: RowLayout
    states: dict[str, npt.NDArray[np.float16]] = field(default_factory=dict)
    origin: str = ""
    loading: Loading | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        n = len(self.tokens)
        if self.data.size != n * self.layout.token_bytes:
            raise ValueError(f"{self.data.size} bytes of rows for {n} tokens of {self.layout.token_bytes} bytes")
        if not 0 <= self.n_exact <= n:
            raise ValueError(f"n_exact {self.n_exact} outside [0, {n}]")

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def n_bytes(self) -> int:
        """Bytes held: rows, token ids and captured states."""
        return self.data.nbytes + self.tokens.nbytes + sum(s.nbytes for s in self.states.values())

    @property
    def is_whole(self) -> bool:
        """Whether all layers are loaded."""
        return self.loading is None or self.loading.is_done

    def has(self, layers: range) -> bool:
        """Whether these layers are loaded."""
        return self.loading is None or self.loading.has(layers)

    def bring(self, layers: range | None = None) -> None:
        """Load these layers, by default all of them, and wait for them. Raises Damaged."""
        if self.loading is not None:
            self.loading.bring(range(self.layout.n_layer) if layers is None else layers)

    def k(self, layer: int) -> npt.NDArray[np.uint8]:
        """K rows of `layer`, uint8 `[n, k_bytes[layer]]`, a view."""
        self.bring(range(layer, layer + 1))
        return k_of(self.data, self.layout, layer)

    def v(self, layer: int) -> npt.NDArray[np.uint8]:
        """V rows of `layer`, uint8 `[n, v_bytes[layer]]`, a view."""
        self.bring(range(layer, layer + 1))
        return v_of(self.data, self.layout, layer)

    def slice(self, start: int, end: int) -> Rows:
        """A copy of the rows of tokens `[start, end)`, counted from the first token. Raises ValueError outside `[0, n]`, or Damaged."""
        if not 0 <= start <= end <= len(self):
            raise ValueError(f"[{start}, {end}) outside [0, {len(self)})")
        layers = range(self.layout.n_layer)
        parts = [self.k(il)[start:end].ravel() for il in layers] + [self.v(il)[start:end].ravel() for il in layers]
        return Rows(
            tokens=self.tokens[start:end].copy(),
            position=self.position + start,
            n_exact=min(max(self.n_exact - start, 0), end - start),
            data=np.concatenate(parts) if parts else np.empty(0, np.uint8),
            layout=self.layout,
            states={name: state[start:end].copy() for name, state in self.states.items()},
            origin=self.origin,
        )


def k_of(data: npt.NDArray[np.uint8], layout: RowLayout, layer: int) -> npt.NDArray[np.uint8]:
    """K rows of `layer` in layer-major `data`, a view."""
    n, sizes = data.size // layout.token_bytes, layout.k_bytes
    start = n * sum(sizes[:layer])
    return data[start : start + n * sizes[layer]].reshape(n, sizes[layer])


def v_of(data: npt.NDArray[np.uint8], layout: RowLayout, layer: int) -> npt.NDArray[np.uint8]:
    """V rows of `layer` in layer-major `data`, a view."""
    n, sizes = data.size // layout.token_bytes, layout.v_bytes
    start = n * (sum(layout.k_bytes) + sum(sizes[:layer]))
    return data[start : start + n * sizes[layer]].reshape(n, sizes[layer])


def is_finite(state: npt.NDArray[np.float16]) -> Mask:
    """bool `[n]`: which vectors of `[n, width]` hold numbers only. Twice as fast as numpy's own test of halves."""
    bits = np.ascontiguousarray(state).view(np.uint16)
    whole: Mask = ((bits & _EXPONENT) != _EXPONENT).all(axis=1)
    return whole


def common_length(a: Sequence[int] | Tokens, b: Tokens) -> int:
    """How many tokens `a` and `b` begin with alike."""
    n = min(len(a), len(b))
    differing = np.flatnonzero(np.asarray(a[:n], np.int32) != b[:n])
    return int(differing[0]) if len(differing) else n
