"""An answer as it is written: what is shown, kept and relayed of it, why it ends, and that llama.cpp's samplers choose its tokens."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import llama_cpp as lc
import numpy as np
import pytest
from support.live_engine import F32, LiveEngine, Taken, changed, opened, plan_of
from support.parrot import write_parrot

from relaylite.engine import llama
from relaylite.engine.interface import Delta
from relaylite.engine.writer import Writer
from relaylite.errors import Cancelled
from relaylite.reuse.plan import Kind
from relaylite.reuse.policies import FULL, PREFIX, RELAY
from relaylite.sampling import Sampling

END, ALSO_END = 2, 0  # <|im_end|>, the EOS of the tiny vocabulary, and <|endoftext|>, which only its name tells
PROMPT = [90, 91, 92]  # xyz

Parrot = Callable[..., AbstractContextManager[LiveEngine]]


@pytest.fixture
def parrot(tmp_path: Path) -> Parrot:
    """A model that answers PROMPT with these tokens."""

    @contextmanager
    def open_it(*answer: int) -> Iterator[LiveEngine]:
        with opened(write_parrot(tmp_path / "parrot.gguf", [PROMPT[-1], *answer]), n_ctx=256) as live:
            yield live

    return open_it


def ids(live: LiveEngine, *texts: str) -> list[int]:
    """One token of each text."""
    found = [live.engine.tokenizer.tokenize(text, parse_special=False) for text in texts]
    assert all(len(tokens) == 1 for tokens in found)
    return [tokens[0] for tokens in found]


def byte_ids(live: LiveEngine, text: str) -> list[int]:
    """A token of each byte of a character that is no token."""
    found = live.engine.tokenizer.tokenize(text, parse_special=False)
    assert len(found) == len(text.encode()) > 1
    return found


@dataclass
class Answer:
    """What was written to PROMPT; it has ended, unless a test wrote only some of it."""

    live: LiveEngine
    writer: Writer
    deltas: list[Delta]

    @property
    def finish_reason(self) -> str:
        return self.writer.finish_reason

    @property
    def shown(self) -> list[str]:
        return [delta.text for delta in self.deltas]

    @property
    def relayed(self) -> tuple[list[int], list[int]]:
        """Ids that go to the next agent, and those whose rows there are, behind the prompt."""
        return list(self.writer.tokens), self.live.engine.harvest("").tokens.tolist()[len(PROMPT) :]


def answer(live: LiveEngine, n: int | None = None, **sampling: object) -> Answer:
    """The whole answer, or its first `n` tokens."""
    live.prefill(plan_of(FULL, PROMPT))
    writer = live.engine.generate(Sampling(**{"max_tokens": 20, **sampling}))  # type: ignore[arg-type]
    return Answer(live, writer, list(islice(writer, n)))


# ends of generation


@pytest.mark.parametrize("end", [END, ALSO_END])
def test_every_end_of_generation_token_ends_and_is_never_shown_or_relayed(end: int, parrot: Parrot, tiny: LiveEngine) -> None:
    a, b = ids(tiny, "a", "b")
    with parrot(a, b, end, a) as live:
        said = answer(live)
        assert said.shown == ["a", "b", ""]
        assert said.finish_reason == "stop"
        assert said.relayed == ([a, b], [a, b])


def test_an_answer_that_ends_at_once_is_empty(parrot: Parrot) -> None:
    with parrot(END) as live:
        said = answer(live)
        assert said.shown == [""]
        assert (said.finish_reason, said.relayed) == ("stop", ([], []))


# stop strings


def test_a_stop_string_over_two_tokens_is_held_back_whole(parrot: Parrot, tiny: LiveEngine) -> None:
    a, hash_sign, b, c = ids(tiny, "a", "#", "b", "c")
    with parrot(a, hash_sign, b, c) as live:
        said = answer(live, stop=("#b",))
        assert said.shown == ["a", "", ""]
        assert said.finish_reason == "stop"
        assert said.relayed == ([a], [a])


def test_what_only_began_like_a_stop_string_is_shown_and_kept(parrot: Parrot, tiny: LiveEngine) -> None:
    a, hash_sign, b, c = ids(tiny, "a", "#", "b", "c")
    with parrot(a, hash_sign, b, c, END) as live:
        said = answer(live, stop=("#c",))
        assert said.shown == ["a", "", "#b", "c", ""]
        assert said.relayed == ([a, hash_sign, b, c], [a, hash_sign, b, c])


def test_a_stop_string_that_never_comes_whole_is_shown_at_the_end(parrot: Parrot, tiny: LiveEngine) -> None:
    a, hash_sign = ids(tiny, "a", "#")
    with parrot(a, hash_sign, END) as live:
        said = answer(live, stop=("#b",))
        assert said.shown == ["a", "", "#"]
        assert said.relayed == ([a, hash_sign], [a, hash_sign])


def test_a_token_that_holds_more_than_the_stop_string_is_not_relayed(parrot: Parrot, tiny: LiveEngine) -> None:
    a, the, b = ids(tiny, "a", " the", "b")
    with parrot(a, the, b) as live:
        said = answer(live, stop=("h",))
        assert said.shown == ["a", " t"]
        assert said.relayed == ([a], [a])


def test_the_first_bytes_of_a_stop_string_are_not_relayed(parrot: Parrot, tiny: LiveEngine) -> None:
    [a], euro = ids(tiny, "a"), byte_ids(tiny, "€")
    with parrot(a, *euro, a + 1) as live:
        said = answer(live, stop=("€",))
        assert said.shown == ["a", "", "", ""]
        assert said.relayed == ([a], [a])


def test_the_prompt_is_never_searched_for_stop_strings(parrot: Parrot, tiny: LiveEngine) -> None:
    a, b = ids(tiny, "a", "b")
    with parrot(a, b, END) as live:
        assert "".join(answer(live, stop=("za",)).shown) == "ab"


# characters over several tokens


def test_a_character_over_three_tokens_is_shown_once_it_is_whole(parrot: Parrot, tiny: LiveEngine) -> None:
    euro = byte_ids(tiny, "€")
    with parrot(*euro, END) as live:
        assert answer(live).shown == ["", "", "€", ""]


def test_a_character_cut_by_max_tokens_is_not_shown_and_not_lost(parrot: Parrot, tiny: LiveEngine) -> None:
    """The next agent gets its bytes by their ids."""
    [a], euro = ids(tiny, "a"), byte_ids(tiny, "€")
    with parrot(a, *euro, END) as live:
        said = answer(live, max_tokens=3)
        assert said.shown == ["a", "", ""]
        assert said.finish_reason == "length"
        assert said.relayed == ([a, *euro[:2]], [a, euro[0]])


# how many tokens


def test_no_tokens_are_written_if_none_are_wanted(parrot: Parrot, tiny: LiveEngine) -> None:
    with parrot(*ids(tiny, "a", "b")) as live:
        said = answer(live, max_tokens=0)
        assert said.deltas == []
        assert (said.finish_reason, said.relayed) == ("length", ([], []))


def test_one_token_has_no_row_yet(parrot: Parrot, tiny: LiveEngine) -> None:
    a, b = ids(tiny, "a", "b")
    with parrot(a, b) as live:
        said = answer(live, max_tokens=1)
        assert [delta.token for delta in said.deltas] == [a]
        assert (said.finish_reason, said.relayed) == ("length", ([a], []))


def test_without_a_limit_the_context_is_filled_to_its_last_slot(parrot: Parrot, tiny: LiveEngine) -> None:
    a, b = ids(tiny, "a", "b")
    with parrot(a, b, a) as live:
        said = answer(live, max_tokens=-1)
        assert len(said.deltas) == live.engine.info.n_ctx - len(PROMPT) and said.finish_reason == "length"
        assert len(live.engine.harvest("")) == live.engine.info.n_ctx - 1
        assert answer(live, max_tokens=2).shown == ["a", "b"]


def test_a_held_back_start_of_a_stop_string_is_shown_with_the_last_token(parrot: Parrot, tiny: LiveEngine) -> None:
    a, hash_sign = ids(tiny, "a", "#")
    with parrot(a, hash_sign, a + 1) as live:
        assert answer(live, max_tokens=2, stop=("#b",)).shown == ["a", "#"]


# ending early


def test_an_answer_that_is_not_read_on_is_kept_as_far_as_it_came(parrot: Parrot, tiny: LiveEngine) -> None:
    a, b, c = ids(tiny, "a", "b", "c")
    with parrot(a, b, c, END) as live:
        said = answer(live, 2)
        said.writer.close()
        assert (said.shown, said.finish_reason) == (["a", "b"], "cancelled")
        assert said.relayed == ([a, b], [a])
        assert list(said.writer) == []


def test_what_was_written_is_known_after_every_token(parrot: Parrot, tiny: LiveEngine) -> None:
    a, b, c = ids(tiny, "a", "b", "c")
    with parrot(a, b, c, END) as live:
        said = answer(live, 0)
        for kept in ([a], [a, b], [a, b, c]):
            next(said.writer)
            assert (said.finish_reason, said.relayed) == ("cancelled", (kept, kept[:-1]))
        next(said.writer)
        assert (said.finish_reason, said.relayed) == ("stop", ([a, b, c], [a, b, c]))


def test_a_cancelled_answer_is_kept_and_the_next_turn_goes_on_from_it(parrot: Parrot, tiny: LiveEngine) -> None:
    a, b, c = ids(tiny, "a", "b", "c")
    with parrot(a, b, c, END) as live:
        said = answer(live, 2)
        live.engine.cancel()
        with pytest.raises(Cancelled):
            next(said.writer)
        assert (said.shown, said.finish_reason) == (["a", "b"], "cancelled")
        assert said.relayed == ([a, b], [a])
        live.prefill(plan_of(PREFIX, Taken(live.engine.harvest(""), kind=Kind.PREFIX), [b]))
        assert [delta.text for delta in live.engine.generate(Sampling())] == ["c", ""]


def test_what_an_answer_left_unread_cannot_reach_the_next_one(parrot: Parrot, tiny: LiveEngine) -> None:
    """Nor when it is dropped only then."""
    a, b, c = ids(tiny, "a", "b", "c")
    with parrot(a, b, c, END) as live:
        dropped = answer(live, 1)
        live.prefill(plan_of(FULL, [*PROMPT, a, b]))
        del dropped
        gc.collect()
        assert live.engine.harvest("").tokens.tolist() == [*PROMPT, a, b]


# sampling


def reference(live: LiveEngine, prompt: list[int], n: int, choose: Callable[[F32, list[int]], int]) -> list[int]:
    """`n` tokens, each chosen from the logits of a full prefill of all before it."""
    tokens = list(prompt)
    for _ in range(n):
        tokens.append(choose(live.full(tokens), tokens))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("penalty", [1.3, 3.0, 0.7])
def test_repeat_penalty_is_llamas_over_prompt_and_answer(penalty: float, tiny: LiveEngine) -> None:
    prompt = tiny.tokens(80)

    def choose(logits: F32, tokens: list[int]) -> int:
        seen = sorted(set(tokens[-64:]))
        logits = logits.copy()
        logits[seen] = np.where(logits[seen] <= 0, logits[seen] * penalty, logits[seen] / penalty)
        return int(logits.argmax())

    expected = reference(tiny, prompt, 8, choose)
    assert expected != reference(tiny, prompt, 8, lambda logits, _: int(logits.argmax()))
    tiny.prefill(plan_of(FULL, prompt))
    assert [d.token for d in tiny.engine.generate(Sampling(max_tokens=8, repeat_penalty=penalty))] == expected


def chain_of(sampling: Sampling) -> object:
    """llama.cpp's usual chain, built by hand."""
    chain = lc.llama_sampler_chain_init(lc.llama_sampler_chain_default_params())
    for sampler in (
        lc.llama_sampler_init_top_k(sampling.top_k), lc.llama_sampler_init_top_p(sampling.top_p, 1),
        lc.llama_sampler_init_min_p(sampling.min_p, 1), lc.llama_sampler_init_temp(sampling.temperature),
        lc.llama_sampler_init_dist(sampling.seed),
    ):  # fmt: skip
        lc.llama_sampler_chain_add(chain, sampler)
    return chain


@pytest.mark.parametrize(
    "values", [{"temperature": 1.0}, {"temperature": 2.0, "top_k": 5}, {"temperature": 1.5, "top_p": 0.5, "min_p": 0.2}]
)
def test_temperature_goes_through_llamas_chain(values: dict[str, float], tiny: LiveEngine) -> None:
    sampling = Sampling(max_tokens=8, seed=7, **values)  # type: ignore[arg-type]
    chain = chain_of(sampling)

    def choose(logits: F32, _: list[int]) -> int:
        entries = (lc.llama_token_data * len(logits))(*[(i, float(x), 0.0) for i, x in enumerate(logits)])
        array = lc.llama_token_data_array(entries, len(logits), -1, False)
        lc.llama_sampler_apply(chain, ctypes.byref(array))
        return int(array.data[array.selected].id)

    prompt = tiny.tokens(20)
    expected = reference(tiny, prompt, 8, choose)
    lc.llama_sampler_free(chain)
    tiny.prefill(plan_of(FULL, prompt))
    written = [delta.token for delta in tiny.engine.generate(sampling)]
    assert written == expected[: len(written)] and written


def test_a_seed_gives_the_same_answer_again_and_another_seed_another(tiny: LiveEngine) -> None:
    prompt = tiny.tokens(20)

    def write(seed: int) -> list[int]:
        tiny.prefill(plan_of(FULL, prompt))
        return [delta.token for delta in tiny.engine.generate(Sampling(max_tokens=12, temperature=1.5, seed=seed))]

    assert write(3) == write(3)
    assert len({tuple(write(seed)) for seed in range(5)}) == 5


@pytest.mark.parametrize("values", [{}, {"temperature": 1.0}, {"temperature": 1.5, "repeat_penalty": 1.5}, {"repeat_penalty": 2.0}])
def test_sampling_from_given_logits_is_sampling_from_the_context(values: dict[str, float], tiny: LiveEngine) -> None:
    logits = tiny.full(tiny.tokens(20))
    for seed in range(20):
        sampling = Sampling(seed=seed, **values)  # type: ignore[arg-type]
        from_context, from_logits = (llama.Sampler(sampling, len(logits)) for _ in range(2))
        for sampler in (from_context, from_logits):
            for token in (int(logits.argmax()), 30, 31):
                sampler.accept(token)
        context = tiny.engine._context
        assert [from_context.sample(context) for _ in range(3)] == [from_logits.sample_from(logits) for _ in range(3)]
        from_context.close()
        from_logits.close()


def test_the_first_token_behind_a_relay_is_sampled_from_its_own_logits(tiny: LiveEngine) -> None:
    """With everything selected a relay writes what a full prefill writes, by the same seed."""
    tiny.relay_by(changed({"l_end": tiny.n_layer}))
    plan = plan_of(RELAY, tiny.tokens(30, 1), Taken(tiny.written(), 24), tiny.tokens(7, 2))
    for seed in range(3):
        sampling = Sampling(max_tokens=6, temperature=1.0, seed=seed)
        tiny.prefill(plan)
        relayed_answer = [delta.token for delta in tiny.engine.generate(sampling)]
        tiny.prefill(plan_of(FULL, plan.tokens))
        assert relayed_answer == [delta.token for delta in tiny.engine.generate(sampling)]
