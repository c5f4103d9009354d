"""Which parameters are tried: first layer ranges over the depth of the model, then how much is selected in the best of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from relaylite.reuse.profile import RelayParameters

# As shares of all layers: where attention is compared, and from where to where tokens run until V is compared.
DEPTHS = (0.0, 1 / 15, 1 / 8, 1 / 5, 1 / 3)
RUNS = ((0.0, 1 / 24), (1 / 15, 1 / 8), (1 / 8, 1 / 5), (1 / 8, 1 / 3))
DEEP = 1 / 5  # from there on the suffix's attention is tried too, while ranges are compared
SHARE = 0.10  # selected while ranges are compared
AMOUNTS = (0.03, 0.05, 0.08, SHARE, 0.14, 0.20)
ATTENDED = (0.0, 0.5, 1.0)
ATTENDED_AMOUNTS = (SHARE, 0.20)  # with which other powers are tried


def ranges(n_layer: int) -> list[RelayParameters]:
    """Layer ranges to compare, each with the same amount selected."""
    by_attention = [RelayParameters(start, start, n_layer, "attention") for start in sorted({round(depth * n_layer) for depth in DEPTHS})]
    by_value = [_run(round(first * n_layer), round(last * n_layer), n_layer) for first, last in RUNS]
    tried = [each for each in (*by_attention, *by_value) if each.fits(n_layer)]
    deep = [each for each in tried if each.l_det >= round(DEEP * n_layer) > 0]
    return _distinct([*(_amount(each, SHARE, 0.0) for each in tried), *(_amount(each, SHARE, 1.0) for each in deep)])


def amounts(found: Iterable[RelayParameters], n_layer: int) -> list[RelayParameters]:
    """These ranges with other amounts selected, with other weights of the suffix's attention, and ended before the last layers."""
    found = list(found)
    tried = [_amount(each, share, each.attended) for each in found for share in AMOUNTS]
    weighed = [_amount(each, share, power) for each in found for share in ATTENDED_AMOUNTS for power in ATTENDED]
    end = max(round(n_layer * 5 / 6), 1)
    return _distinct([*tried, *weighed, *(replace(each, l_end=end) for each in found if each.l_det < end < each.l_end)])


def _run(first: int, last: int, n_layer: int) -> RelayParameters:
    return RelayParameters(first, max(last, first + 1), max(n_layer, first + 1), "value")


def _amount(parameters: RelayParameters, share: float, attended: float) -> RelayParameters:
    """Weighed by attention the score of most tokens is below the mean, so that the share alone decides."""
    return replace(parameters, tau=0.0 if attended else 1.0, max_share=share, attended=attended)


def _distinct(parameters: Iterable[RelayParameters]) -> list[RelayParameters]:
    return list(dict.fromkeys(parameters))
