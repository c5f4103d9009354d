"""Which parameters are tried: first layer ranges over the depth of the model, then how much is selected in the best of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from relaylite.reuse.profile import RelayParameters

# Depth of detection as shares of all layers, and how much is selected while ranges are compared.
DEPTHS = (0.0, 1 / 30, 1 / 15, 1 / 10, 2 / 15, 1 / 5, 4 / 15, 1 / 3)
_TAU, _SHARE = 1.0, 0.10
# (tau, max_share) from little to much.
AMOUNTS = ((1.0, 0.03), (1.0, 0.05), (1.0, 0.07), (_TAU, _SHARE), (1.0, 0.13), (1.0, 0.17), (1.0, 0.21), (0.8, 0.30))


def ranges(n_layer: int) -> list[RelayParameters]:
    """Layer ranges to compare, each with the same amount selected."""
    starts = sorted({round(depth * n_layer) for depth in DEPTHS})
    by_attention = [RelayParameters(start, start, n_layer, "attention", _TAU, _SHARE) for start in starts]
    by_value = [RelayParameters(start, start + 1, n_layer, "value", _TAU, _SHARE) for start in starts[:3] if start + 1 < n_layer]
    deeper = [RelayParameters(start, start + 2, n_layer, "value", _TAU, _SHARE) for start in starts[2:4] if start + 2 < n_layer]
    return _distinct([*by_attention, *by_value, *deeper])


def amounts(found: Iterable[RelayParameters], n_layer: int) -> list[RelayParameters]:
    """These ranges with other amounts selected, and ended before the last layers."""
    tried = [replace(each, tau=tau, max_share=share) for each in found for tau, share in AMOUNTS]
    end = max(round(n_layer * 5 / 6), 1)
    return _distinct([*tried, *(replace(each, l_end=end) for each in found if each.l_det < end < each.l_end)])


def _distinct(parameters: Iterable[RelayParameters]) -> list[RelayParameters]:
    return list(dict.fromkeys(parameters))
