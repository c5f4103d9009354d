"""How agents sample unless they are told: by their role's values, below everything that anybody said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEngine
from support.live_engine import opened

from relaylite.api import Relay
from relaylite.chain.agents import BUILT_IN, Agent
from relaylite.chain.role_sampling import OF_ROLES, STEADY, sampling_of
from relaylite.sampling import Sampling

CODE = next(agent for agent in BUILT_IN if agent.name == "code")
POET = Agent("poet", "Rhyme.")


def test_a_role_has_its_values_and_other_agents_those_that_keep_any_answer_steady() -> None:
    assert sampling_of(CODE, {}) == Sampling().merged(OF_ROLES["code"]) != sampling_of(POET, {})
    assert sampling_of(POET, {}) == Sampling().merged(STEADY)
    assert set(OF_ROLES) <= {agent.name for agent in BUILT_IN}


@pytest.mark.parametrize("agent", BUILT_IN, ids=lambda agent: agent.name)
def test_no_role_is_left_to_repeat_itself(agent: Agent) -> None:
    sampling = sampling_of(agent, {})
    assert sampling.has_dry and sampling.ends_loops


def test_what_is_told_goes_before_the_role_and_the_agents_own_before_that() -> None:
    told = {"dry_multiplier": 0.5, "max_tokens": 9}
    assert sampling_of(CODE, told) == Sampling().merged({**OF_ROLES["code"], **told})
    assert sampling_of(CODE.with_sampling({"dry_multiplier": 0.2}), told).dry_multiplier == 0.2


@pytest.mark.parametrize(
    ("agent", "told"), [(CODE, {"temperature": 0}), (CODE, {"temperature": 0.0}), (CODE.with_sampling({"temperature": 0}), {})]
)
def test_temperature_0_is_plain_greedy(agent: Agent, told: dict[str, Any]) -> None:
    assert sampling_of(agent, told) == Sampling()
    assert sampling_of(agent, {**told, "dry_multiplier": 0.3}) == Sampling(dry_multiplier=0.3)


def test_a_chain_samples_so_and_says_what_it_was_given() -> None:
    engine = FakeEngine()
    relay = Relay(engine=engine, sampling={"seed": 3}, store_bytes=10**7)
    chain = relay.chain(["code"], sampling={"max_tokens": 9})
    chain.run("Sort.")
    assert engine.samplings == [Sampling(seed=3, max_tokens=9).merged(OF_ROLES["code"])]
    assert chain.sampling == Sampling(seed=3, max_tokens=9)
    chain.sampling = Sampling(max_tokens=4)
    chain.run("Sort.")
    Relay(engine=engine, sampling=Sampling(seed=5), store_bytes=10**7).chain(["code"]).run("Sort.")
    assert engine.samplings[1:] == [Sampling(max_tokens=4), Sampling(seed=5)]


def test_a_loaded_conversation_samples_as_before() -> None:
    engine = FakeEngine()
    relay = Relay(engine=engine, sampling={"seed": 3}, store_bytes=10**7)
    chain = relay.chain(["code"])
    chain.run("Sort.")
    relay.chain_from_dict(chain.to_dict()).run("And now?")
    assert engine.samplings[0] == engine.samplings[1]


def test_the_small_model_repeats_less_and_says_the_same_again(default_model_path: Path) -> None:
    """Greedily it says one list for ever."""
    with opened(default_model_path, n_ctx=1024) as live:
        prompt = live.engine.tokenizer.tokenize("apple pear plum " * 10, parse_special=False)

        def write(sampling: Sampling) -> list[int]:
            live.engine.configure(live.engine.profile)
            live.full(prompt)
            return [delta.token for delta in live.engine.generate(sampling)]

        greedy, steady = (write(sampling_of(POET, {"max_tokens": 48, **told})) for told in ({"temperature": 0}, {}))
        assert len(set(greedy)) < 6 < 12 < len(set(steady))
        assert write(sampling_of(POET, {"max_tokens": 48})) == steady
