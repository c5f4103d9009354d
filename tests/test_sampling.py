"""Sampling values: what is allowed, and what a message about the rest says."""

from __future__ import annotations

from typing import Any

import pytest

from relaylite.errors import UsageError
from relaylite.sampling import Sampling


def test_defaults_are_greedy() -> None:
    assert Sampling().is_greedy
    assert not Sampling(temperature=0.1).is_greedy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0),
        ("temperature", 10.0),
        ("top_k", 0),
        ("top_p", 1),
        ("min_p", 0.0),
        ("repeat_penalty", 0.01),
        ("frequency_penalty", -2),
        ("presence_penalty", 2.0),
        ("penalty_last_n", -1),
        ("penalty_last_n", 0),
        ("dry_multiplier", 100),
        ("dry_base", 1),
        ("dry_allowed_length", 0),
        ("dry_penalty_last_n", -1),
        ("logit_bias", ((0, -100.0), (5, 100.0))),
        ("seed", 2**32 - 2),
        ("max_tokens", -1),
        ("max_tokens", 0),
    ],
)
def test_ends_of_the_ranges_are_allowed(name: str, value: Any) -> None:
    assert getattr(Sampling().merged({name: value}), name) == value


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("temperature", -0.1, "from 0 to 10"),
        ("temperature", float("nan"), "from 0 to 10"),
        ("temperature", float("inf"), "from 0 to 10"),
        ("temperature", "0.5", "from 0 to 10"),
        ("temperature", True, "from 0 to 10"),
        ("top_k", -1, "whole number from 0"),
        ("top_k", 40.0, "whole number from 0"),
        ("top_p", 1.01, "from 0 to 1"),
        ("min_p", -0.01, "from 0 to 1"),
        ("repeat_penalty", 0, "from 0.01 to 10"),
        ("frequency_penalty", 2.01, "from -2 to 2"),
        ("presence_penalty", -2.01, "from -2 to 2"),
        ("presence_penalty", float("nan"), "from -2 to 2"),
        ("penalty_last_n", -2, "from -1"),
        ("dry_multiplier", -1, "from 0 to 100"),
        ("dry_base", 0.9, "from 1 to 100"),
        ("dry_allowed_length", 1.5, "whole number from 0"),
        ("dry_penalty_last_n", -2, "from -1"),
        ("logit_bias", {5: 1}, "pairs of a token id and a number"),
        ("logit_bias", [5], "pairs of a token id and a number"),
        ("logit_bias", [(5, 1, 2)], "pairs of a token id and a number"),
        ("logit_bias", [(1, 1), (1, 2)], "that name each token once"),
        ("seed", 2**32 - 1, "from 0 to 4294967294"),
        ("max_tokens", -2, "from -1"),
        ("max_tokens", None, "from -1"),
        ("stop", [""], "not empty"),
        ("stop", [1], "list of texts"),
        ("stop", None, "list of texts"),
    ],
)
def test_a_value_out_of_range_is_named_with_the_range(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(UsageError, match=rf"^{name} must be .*{allowed}") as caught:
        Sampling().merged({name: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ((-1, 1), "^a token id in logit_bias must be a whole number from 0"),
        (("5", 1), "^a token id in logit_bias must be a whole number"),
        ((True, 1), "^a token id in logit_bias must be a whole number"),
        ((5, 100.5), "^logit_bias of token 5 must be a number from -100 to 100, not 100.5$"),
        ((5, float("nan")), "^logit_bias of token 5 must be a number"),
    ],
)
def test_a_pair_of_logit_bias_out_of_range_is_named(pair: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Sampling(logit_bias=(pair,))


def test_logit_bias_comes_as_lists_too_and_can_be_compared() -> None:
    given: Any = [[3, 1], (4, -100)]
    assert Sampling(logit_bias=given) == Sampling(logit_bias=((3, 1.0), (4, -100.0)))
    assert hash(Sampling(logit_bias=given)) == hash(Sampling(logit_bias=((3, 1.0), (4, -100.0))))


def test_merged_replaces_only_what_is_given() -> None:
    base = Sampling(temperature=0.7, seed=3)
    assert base.merged({"seed": 4}) == Sampling(temperature=0.7, seed=4)
    assert base.merged({}) is base
    assert base == Sampling(temperature=0.7, seed=3)


def test_merged_names_what_it_knows() -> None:
    with pytest.raises(UsageError, match=r"unknown sampling value 'temprature'; known: temperature, top_k, .*stop"):
        Sampling().merged({"temprature": 1})


@pytest.mark.parametrize(("given", "kept"), [("###", ("###",)), (["a", "b"], ("a", "b")), ((), ()), ((" ",), (" ",))])
def test_stop_strings_come_as_a_text_a_list_or_a_tuple(given: Any, kept: tuple[str, ...]) -> None:
    assert Sampling(stop=given).stop == kept
    assert hash(Sampling(stop=given)) == hash(Sampling(stop=kept))
