"""RoPE in numpy, written from the papers' formulas: what the native rotation is measured against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rope:
    """Turns the first `n_dims` of each head; `is_split` pairs i with i + n_dims/2 (NeoX), else 2i with 2i + 1."""

    head: int
    n_dims: int
    base: float = 10_000.0
    is_split: bool = False
    factors: tuple[float, ...] = ()
    scale: float = 1.0
    yarn_context: int = 0
    """Context that the model was trained for, if YaRN stretches it; then `scale` applies to the slow frequencies only."""

    def angles(self, delta: int) -> F64:
        """Angle of each pair, `[n_dims / 2]`."""
        i = np.arange(self.n_dims // 2)
        fast = self.base ** (-2.0 * i / self.n_dims) / (np.array(self.factors) if self.factors else 1.0)
        return delta * (fast * self.scale * (1 - self._kept(i)) + fast * self._kept(i))

    def _kept(self, i: npt.NDArray[np.int64]) -> F64:
        """The share of each pair's frequency that YaRN leaves unscaled (beta_fast 32, beta_slow 1)."""
        if not self.yarn_context:
            return np.zeros(len(i))

        def pair_of(turns: float) -> float:
            return float(self.n_dims * np.log(self.yarn_context / (turns * 2 * np.pi)) / (2 * np.log(self.base)))

        low, high = max(np.floor(pair_of(32)), 0), min(np.ceil(pair_of(1)), self.n_dims - 1)
        return np.asarray(1 - np.clip((i - low) / max(0.001, high - low), 0, 1))

    def turn(self, k: npt.NDArray[np.floating], delta: int) -> F64:
        """K rows `[n, heads · head]` moved by `delta` positions."""
        heads = np.asarray(k, np.float64).reshape(len(k), -1, self.head)
        half = self.n_dims // 2
        first, second = (
            (slice(0, half), slice(half, self.n_dims)) if self.is_split else (slice(0, self.n_dims, 2), slice(1, self.n_dims, 2))
        )
        a, b = heads[..., first], heads[..., second]
        cos, sin = np.cos(self.angles(delta)), np.sin(self.angles(delta))
        out = heads.copy()
        out[..., first], out[..., second] = a * cos - b * sin, a * sin + b * cos
        return out.reshape(k.shape)


# Of the tiny models.
ROPES = {
    "llama": Rope(64, 64),
    "mistral": Rope(64, 64, base=1e6),
    "qwen2": Rope(64, 64, is_split=True),
    "stablelm": Rope(64, 16, is_split=True),
    "glm4": Rope(64, 32),
    "llama-llama3": Rope(64, 64, factors=tuple(np.linspace(1, 8, 32))),
    "llama-linear": Rope(64, 64, scale=0.25),
    "llama-yarn": Rope(64, 64, scale=0.25, yarn_context=1024),
    "phi3-longrope": Rope(64, 48, is_split=True, factors=tuple(np.linspace(1, 1.2, 24))),
}
