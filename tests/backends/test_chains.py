"""Chains of agents on every device at hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.places import Place

from relaylite.api import Relay
from relaylite.machine import workers

N_LAYER = 30


def opened(path: Path, policy: str, max_tokens: int, place: Place) -> Relay:
    sampling = {"max_tokens": max_tokens, "temperature": 0}
    return Relay(path, policy=policy, n_ctx=512, n_threads=1, store_bytes=1 << 28, sampling=sampling, **place.of_engine(N_LAYER))


@pytest.mark.parametrize("policy", ["naive", "relay"])
def test_a_chain_takes_over_what_was_written(policy: str, place: Place, default_model_path: Path) -> None:
    with opened(default_model_path, policy, 40, place) as relay:
        assert relay.info.relay_refusal is None
        assert (workers.WARNING in relay.info.warnings) == bool(place.worker)
        result = relay.chain(["plan", "solve"]).run("Explain binary search.")
    first, second = result.turns
    assert second.metrics.span_tokens >= len(first.tokens) - 2 >= 32


def test_prefix_and_full_give_the_same_text(place: Place, default_model_path: Path) -> None:
    texts = []
    for policy in ("full", "prefix"):
        with opened(default_model_path, policy, 8, place) as relay:
            texts.append(relay.chain(["plan"]).run("Explain binary search.").text)
    assert texts[0] == texts[1] != ""
