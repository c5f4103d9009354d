"""The engine on every device at hand: everything selected is `full`, nothing selected is `naive`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.live_engine import LiveEngine, Taken, changed, difference, home_of_session, opened, plan_of
from support.places import Place
from support.tiny_models import write_model

from relaylite.errors import Cancelled
from relaylite.reuse.policies import NAIVE, RELAY
from relaylite.reuse.profile import RelayParameters

N_LAYER = 4
ROUNDING = 2e-2  # what is not recomputed, or wrongly, is off by 0.1 and more


@pytest.fixture(scope="module")
def tiny(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveEngine]:
    path = write_model(tmp_path_factory.mktemp("models") / "m.gguf", "llama", n_layer=N_LAYER, weights="F32")
    with home_of_session(tmp_path_factory), opened(path, kv_type="f32", **place.of_engine(N_LAYER)) as live:
        yield live


@pytest.mark.parametrize("parameters", [changed({"l_end": N_LAYER}), changed({"l_det": 2, "l_end": N_LAYER, "detector": "value"})])
def test_with_everything_selected_relay_is_full(parameters: RelayParameters, tiny: LiveEngine) -> None:
    tiny.relay_by(parameters)
    one, other = tiny.written(), tiny.written(seed=1)
    plan = plan_of(RELAY, tiny.tokens(30, 1), Taken(one, 24), tiny.tokens(3, 3), Taken(other, 24), tiny.tokens(7, 2))
    logits, rows = tiny.logits_of(plan), tiny.engine.harvest("")
    assert difference(logits, tiny.full(plan.tokens)) < ROUNDING
    assert tiny.errors(rows, tiny.engine.harvest("")).max() < ROUNDING


def test_with_nothing_selected_relay_is_naive_and_not_full(tiny: LiveEngine) -> None:
    tiny.relay_by(changed({"l_start": 2, "l_det": 2, "l_end": N_LAYER, "max_share": 0.0}))
    plan = plan_of(RELAY, tiny.tokens(30, 1), Taken(tiny.written(), 24), tiny.tokens(7, 2))
    logits = tiny.logits_of(plan)
    naive = tiny.logits_of(plan_of(NAIVE, tiny.tokens(30, 1), Taken(tiny.written(), 24), tiny.tokens(7, 2)))
    assert difference(logits, naive) < ROUNDING < difference(logits, tiny.full(plan.tokens))


def test_a_cancel_ends_a_sweep(tiny: LiveEngine) -> None:
    """A device that cannot be stopped inside a graph is stopped between two of them."""
    tiny.relay_by(changed({"l_end": N_LAYER}))
    plan = plan_of(RELAY, tiny.tokens(30, 1), Taken(tiny.written(), 24), tiny.tokens(7, 2))
    with pytest.raises(Cancelled):
        tiny.engine.prefill(plan, lambda phase: tiny.engine.cancel())
    assert difference(tiny.logits_of(plan), tiny.full(plan.tokens)) < ROUNDING
