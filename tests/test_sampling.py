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
