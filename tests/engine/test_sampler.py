"""How tokens are chosen: by llama.cpp's samplers, with penalties over prompt and answer, and what is reported of their probabilities."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llama_cpp as lc
import numpy as np
import pytest
from support.live_engine import F32, LiveEngine, Taken, changed, plan_of

from relaylite.engine import llama
from relaylite.engine.interface import Delta
from relaylite.engine.llama.dry import N_KEPT
from relaylite.errors import EngineClosed, UsageError
from relaylite.reuse.policies import FULL, RELAY
from relaylite.sampling import Sampling


def write(live: LiveEngine, prompt: list[int], n: int = 12, n_logprobs: int | None = None, **sampling: Any) -> list[Delta]:
    live.prefill(plan_of(FULL, prompt))
    return list(live.engine.generate(Sampling(max_tokens=n, **sampling), n_logprobs))


def tokens_of(deltas: list[Delta]) -> list[int]:
    return [delta.token for delta in deltas]


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
    sampling = Sampling(max_tokens=8, seed=5, **values)  # type: ignore[arg-type]
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


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"temperature": 1.0},
        {"temperature": 1.5, "repeat_penalty": 1.5},
        {"repeat_penalty": 2.0},
        {"frequency_penalty": 2.0, "logit_bias": ((31, 50.0),)},
        {"temperature": 1.0, "dry_multiplier": 2.0, "dry_allowed_length": 1},
    ],
)
def test_sampling_from_given_logits_is_sampling_from_the_context(values: dict[str, Any], tiny: LiveEngine) -> None:
    logits = tiny.full(tiny.tokens(20))
    for seed in range(20):
        sampling = Sampling(seed=seed, **values)
        from_context, from_logits = (llama.Sampler(sampling, tiny.engine.tokenizer, 2048) for _ in range(2))
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


# penalties


@pytest.mark.parametrize(
    "values",
    [
        {"frequency_penalty": 1.5},
        {"presence_penalty": 2.0},
        {"frequency_penalty": -2.0, "presence_penalty": 1.0, "repeat_penalty": 1.2},
        {"frequency_penalty": 2.0, "penalty_last_n": 5},
        {"frequency_penalty": 2.0, "penalty_last_n": -1},
        {"frequency_penalty": 2.0, "penalty_last_n": 0},
    ],
)
def test_penalties_count_prompt_and_answer_as_far_as_they_look_back(values: dict[str, Any], tiny: LiveEngine) -> None:
    """At temperature 0 too. llama.cpp computes them in float32, as here."""
    sampling = Sampling(**values)
    prompt = tiny.tokens(20) * 4
    window = {0: 0, -1: 10**6}.get(sampling.penalty_last_n, sampling.penalty_last_n)

    def choose(logits: F32, tokens: list[int]) -> int:
        logits, counts = logits.copy(), np.bincount(tokens[-window:] if window else [], minlength=len(logits)).astype(np.float32)
        used = counts > 0
        logits[used] = np.where(logits[used] <= 0, logits[used] * sampling.repeat_penalty, logits[used] / sampling.repeat_penalty)
        logits[used] -= counts[used] * sampling.frequency_penalty + sampling.presence_penalty
        return int(logits.argmax())

    assert tokens_of(write(tiny, prompt, **values)) == reference(tiny, prompt, 12, choose)


def test_penalties_change_what_a_greedy_answer_says(default: LiveEngine) -> None:
    prompt = default.engine.tokenizer.tokenize("one two one two one two one two one two", parse_special=False)
    plain = tokens_of(write(default, prompt))
    for values in ({"frequency_penalty": 2.0}, {"presence_penalty": 2.0}, {"dry_multiplier": 2.0}, {"logit_bias": ((plain[0], -100),)}):
        assert tokens_of(write(default, prompt, **values)) != plain, values
    assert tokens_of(write(default, prompt)) == plain


# logit bias


def test_a_bias_bans_and_favours_tokens(tiny: LiveEngine) -> None:
    prompt = tiny.tokens(20)
    plain = tokens_of(write(tiny, prompt, 6))
    banned = tuple((token, -100) for token in set(plain))
    for values in ({}, {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}):
        assert not set(plain) & set(tokens_of(write(tiny, prompt, 40, logit_bias=banned, **values)))
        assert set(tokens_of(write(tiny, prompt, 6, logit_bias=[[50, 100]], **values))) == {50}


def test_a_bias_is_added_to_the_logit(tiny: LiveEngine) -> None:
    prompt = tiny.tokens(20)
    logits = tiny.full(prompt)
    second, first = np.argsort(logits)[-2:].tolist()
    gap = float(logits[first] - logits[second])
    for factor, expected in ((0.9, first), (1.1, second)):
        assert tokens_of(write(tiny, prompt, 1, logit_bias=((second, gap * factor),))) == [expected]


def test_a_banned_token_does_not_come_back_when_penalties_favour_it(tiny: LiveEngine) -> None:
    values = {"frequency_penalty": -2.0, "penalty_last_n": -1}
    prompt = [*tiny.tokens(20), *[50] * 100]
    assert 50 in tokens_of(write(tiny, prompt, 6, **values))
    assert 50 not in tokens_of(write(tiny, prompt, 6, logit_bias=((50, -100),), **values))


def test_a_bias_is_checked_against_the_vocabulary(tiny: LiveEngine) -> None:
    n_vocab = tiny.engine.info.n_vocab
    tiny.prefill(plan_of(FULL, tiny.tokens(4)))
    with pytest.raises(UsageError, match=rf"^logit_bias names token {n_vocab}; this model's tokens are 0 to {n_vocab - 1}$"):
        tiny.engine.generate(Sampling(logit_bias=((0, 1), (n_vocab, 1))))
    with pytest.raises(UsageError, match="bans every token"):
        tiny.engine.generate(Sampling(logit_bias=tuple((token, -100) for token in range(n_vocab))))
    assert write(tiny, tiny.tokens(4), 1, logit_bias=((n_vocab - 1, 1),))


# DRY


def dry_penalties(tokens: list[int], breakers: set[int], sampling: Sampling) -> dict[int, float]:
    """What DRY takes off, as `Sampling` says it: for each token the longest sequence before it that ends the text too."""
    tokens = tokens if sampling.dry_penalty_last_n < 0 else tokens[-sampling.dry_penalty_last_n :]
    n_after_breaker = next((i for i, token in enumerate(reversed(tokens)) if token in breakers), len(tokens))
    longest: dict[int, int] = {}
    for at in range(1, len(tokens)):
        n = 0
        while n < min(at, n_after_breaker) and tokens[at - 1 - n] == tokens[-1 - n]:
            n += 1
        longest[tokens[at]] = max(longest.get(tokens[at], 0), n)
    penalty = {
        token: sampling.dry_multiplier * sampling.dry_base ** (n - sampling.dry_allowed_length)
        for token, n in longest.items()
        if n >= sampling.dry_allowed_length and token not in breakers
    }
    return penalty if n_after_breaker >= sampling.dry_allowed_length and len(tokens) > sampling.dry_allowed_length else {}


@pytest.mark.parametrize(
    "values",
    [
        {"dry_multiplier": 0.8},
        {"dry_multiplier": 5.0, "dry_base": 1.1, "dry_allowed_length": 1},
        {"dry_multiplier": 2.0, "dry_allowed_length": 4},
        {"dry_multiplier": 2.0, "dry_penalty_last_n": 30},
        {"dry_multiplier": 9.0, "dry_base": 1, "dry_allowed_length": 0},
    ],
)
def test_dry_weakens_what_goes_on_with_a_sequence_of_prompt_or_answer(values: dict[str, Any], default: LiveEngine) -> None:
    vocab = default.engine.tokenizer
    breakers = {token for token in range(vocab.n_tokens) if any(each in vocab.piece(token) for each in (b"\n", b":", b'"', b"*"))}
    sampling = Sampling(**values)
    prompt = vocab.tokenize("Say: red green blue,\nred green blue, red green blue, red", parse_special=False)

    def choose(logits: F32, tokens: list[int]) -> int:
        logits = logits.copy()
        for token, penalty in dry_penalties(tokens, breakers, sampling).items():
            logits[token] -= penalty
        return int(logits.argmax())

    expected = reference(default, prompt, 10, choose)
    assert expected != reference(default, prompt, 10, lambda logits, _: int(logits.argmax()))
    assert tokens_of(write(default, prompt, 10, **values)) == expected


def test_each_answer_has_a_dry_sampler_of_its_own(tiny: LiveEngine) -> None:
    """What one answer said is nothing that the next one repeats, however many kinds are in use."""
    prompt = tiny.tokens(6) * 3
    first = {}
    for _ in range(2):
        for n in range(N_KEPT + 2):
            written = tokens_of(write(tiny, prompt, dry_multiplier=1.0 + n, dry_allowed_length=1))
            assert first.setdefault(n, written) == written


def test_no_dry_sampler_outlives_the_vocabulary(tiny: LiveEngine) -> None:
    vocab = llama.Vocab(tiny.engine.tokenizer._address, is_spaced=False)
    lc.llama_sampler_free(vocab.dry.sampler(1.0, 1.75, 2, 64))
    vocab.close()
    with pytest.raises(EngineClosed):
        vocab.dry.sampler(1.0, 1.75, 2, 64)


# log probabilities


def log_softmax(logits: F32) -> np.ndarray:
    wide = logits.astype(np.float64)
    return wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())


@pytest.mark.parametrize("values", [{}, {"temperature": 1.5, "frequency_penalty": 2.0, "logit_bias": ((60, 20.0),), "dry_multiplier": 2.0}])
@pytest.mark.parametrize("n_top", [0, 5, 20])
def test_log_probabilities_are_those_of_the_model_before_sampling_changes_them(
    n_top: int, values: dict[str, Any], default: LiveEngine
) -> None:
    prompt = default.engine.tokenizer.tokenize("The capital of France is", parse_special=False)
    deltas = write(default, prompt, 6, n_top, **values)
    for n, delta in enumerate(deltas):
        expected = log_softmax(default.full([*prompt, *tokens_of(deltas[:n])]))
        assert delta.logprob == pytest.approx(expected[delta.token], abs=0.02)  # a token decoded alone is rounded otherwise
        assert [logprob for _, logprob in delta.top] == pytest.approx(np.sort(expected)[::-1][:n_top].tolist(), abs=0.02)
        assert all(expected[token] == pytest.approx(logprob, abs=0.02) for token, logprob in delta.top)
    assert tokens_of(deltas) == tokens_of(write(default, prompt, 6, **values))


def test_the_token_that_ends_an_answer_has_a_log_probability_too(default: LiveEngine) -> None:
    prompt = default.engine.tokenizer.tokenize("<|im_start|>user\nSay yes.<|im_end|>\n<|im_start|>assistant\n", parse_special=True)
    [end] = default.engine.tokenizer.tokenize("<|im_end|>", parse_special=True)
    [delta] = write(default, prompt, 5, 2, logit_bias=((end, 100),))
    assert delta.token == end and delta.logprob is not None and delta.logprob < -1 and len(delta.top) == 2


def test_the_first_token_behind_a_relay_is_reported_from_its_own_logits(tiny: LiveEngine) -> None:
    tiny.relay_by(changed({"l_end": tiny.n_layer}))
    tiny.prefill(plan_of(RELAY, tiny.tokens(30, 1), Taken(tiny.written(), 24), tiny.tokens(7, 2)))
    expected = log_softmax(tiny.engine.logits())
    with pytest.raises(UsageError):
        tiny.engine.generate(Sampling(), 99)  # what is refused leaves the logits where they are
    first = next(tiny.engine.generate(Sampling(), 3))
    assert first.logprob == pytest.approx(expected.max(), abs=1e-5) and first.top[0] == (first.token, first.logprob)


def test_tokens_that_are_equally_likely_are_reported_by_their_ids() -> None:
    logits = np.array([1, 3, 3, 0, 3, 1], np.float32)
    assert [token for token, _ in llama.logprob_of(logits, 0, 2)[1]] == [1, 2]
    assert [token for token, _ in llama.logprob_of(logits, 0, 5)[1]] == [1, 2, 4, 0, 5]
    assert len(llama.logprob_of(logits, 0, 20)[1]) == 6


@pytest.mark.parametrize("n", [-1, 21, True])
def test_another_number_of_log_probabilities_is_refused(n: int, tiny: LiveEngine) -> None:
    tiny.prefill(plan_of(FULL, tiny.tokens(4)))
    with pytest.raises(UsageError, match="from 0 to 20"):
        tiny.engine.generate(Sampling(), n)
    assert (delta := next(tiny.engine.generate(Sampling()))).logprob is None and delta.top == ()
