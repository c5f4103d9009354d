"""Answers of the real model, put as text into other prompts the way agent frameworks do it: how many of their tokens a plan takes over."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.live_engine import LiveEngine, plan_of

from relaylite.prompt.builder import PromptBuilder
from relaylite.prompt.known_answers import KnownAnswers
from relaylite.prompt.messages import Message, Role, Text
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, NAIVE, RELAY
from relaylite.store import Store

TASKS = (
    "List ten pieces of advice for a new programmer, each with a heading and a short explanation in two sentences.",
    "Write a Python function that reads a CSV file and prints the sum of each column. Explain each step.",
)
TRUNCATED = "\n..._This content has been truncated to stay below 20000 characters_...\n"


@dataclass(frozen=True)
class Upstream:
    """What two requests left behind."""

    store: Store
    known: KnownAnswers
    answers: tuple[tuple[int, ...], ...]
    texts: tuple[str, ...]


@pytest.fixture(scope="module")
def upstream(open_default: LiveEngine) -> Upstream:
    live = open_default
    live.reset()
    vocab, store, known = live.engine.tokenizer, Store(live.engine.layout, 1 << 30), KnownAnswers()
    answers, texts = [], []
    for i, task in enumerate(TASKS):
        prompt = PromptBuilder(live.engine.template, vocab).build([Message("user", (Text(task),))])
        live.prefill(plan_of(FULL, prompt.tokens))
        tokens = live.generate(250, temperature=0.7, seed=5 + i)
        store.put(live.engine.harvest(f"r{i}"), answer=len(prompt))
        pieces = [vocab.piece(token) for token in tokens]
        known.add(tokens, pieces, f"r{i}")
        answers.append(tuple(tokens))
        texts.append(b"".join(pieces).decode(errors="ignore"))
    return Upstream(store, known, tuple(answers), tuple(texts))


def trimmed_lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n"))


# how → the text, and what of the answers it holds as they were
VERBATIM: dict[str, Callable[[str, str], tuple[str, list[str]]]] = {
    "none": lambda a, b: (f"Review this:\n\n{a}", [a]),
    "strip": lambda a, b: (f"This is the context you're working with:\n{a.strip()}\n\nBegin.", [a.strip()]),
    "start cut": lambda a, b: (f"Final: {a[len(a) // 3 :]}\n", [a[len(a) // 3 :]]),
    "end cut": lambda a, b: (f"So far: {a[: len(a) // 2]}", [a[: len(a) // 2]]),
    "several": lambda a, b: (f"Context:\n{a}\n----------\n{b}\n\nGo on.", [a, b]),
    "trailing blanks": lambda a, b: (trimmed_lines(f"=== INPUT FROM x (role) ===\n{a}  \n"), [trimmed_lines(a)]),
    "middle cut": lambda a, b: (a[: len(a) // 3] + TRUNCATED + a[-len(a) // 3 :], [a[: len(a) // 3], a[-len(a) // 3 :]]),
}
ESCAPED: dict[str, Callable[[str], str]] = {
    "json": lambda text: json.dumps({"result": text}),
    "json utf-8": lambda text: json.dumps({"result": text}, ensure_ascii=False, indent=2),
    "json in json": lambda text: json.dumps({"arguments": json.dumps({"text": text})}),
    "repr": lambda text: repr({"answer": text}),
}


def plan_for(live: LiveEngine, upstream: Upstream, text: str, role: Role = "user") -> Plan:
    body = upstream.known.split(text).parts
    messages = [Message("user", (Text("Hello."),)), Message(role, body), Message("user", (Text("And?"),))]
    prompt = PromptBuilder(live.engine.template, live.engine.tokenizer).build(messages)
    said = b"".join(map(live.engine.tokenizer.piece, prompt.tokens.tolist()))
    assert text.strip().encode() in said
    return make_plan(prompt.tokens, upstream.store, RELAY, prompt.quotes)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("how", VERBATIM)
def test_verbatim_text_is_taken_over(default: LiveEngine, upstream: Upstream, which: int, how: str) -> None:
    text, kept = VERBATIM[how](upstream.texts[which], upstream.texts[1 - which])
    n_tokens = sum(len(default.engine.tokenizer.tokenize(each, parse_special=False)) for each in kept)
    assert plan_for(default, upstream, text).count(Kind.SPAN) >= 0.95 * n_tokens


def test_text_in_another_role_is_taken_over(default: LiveEngine, upstream: Upstream) -> None:
    plan = plan_for(default, upstream, upstream.texts[0], "assistant")
    assert plan.count(Kind.SPAN) >= 0.95 * len(upstream.answers[0])


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("how", ESCAPED)
def test_escaped_text_is_taken_over(default: LiveEngine, upstream: Upstream, which: int, how: str) -> None:
    plan = plan_for(default, upstream, f"Tool said: {ESCAPED[how](upstream.texts[which])}")
    share = (0.85, 0.79)[which]  # the code has 44 line breaks in 250 tokens, and quotation marks
    assert plan.count(Kind.SPAN) >= share * len(upstream.answers[which])
    default.prefill(plan)
    assert default.generate(4)


def test_without_quotes_the_short_runs_of_an_escaped_answer_are_computed(default: LiveEngine, upstream: Upstream) -> None:
    plan = plan_for(default, upstream, json.dumps(upstream.texts[1]))
    plain = make_plan(plan.tokens, upstream.store, NAIVE)
    assert plain.count(Kind.SPAN) < plan.count(Kind.SPAN) - 30


def test_after_a_restart_answers_are_known_again_from_the_disk(default: LiveEngine, upstream: Upstream, tmp_path: Path) -> None:
    live, layout = default, default.engine.layout
    first = Store(layout, 1 << 30, folder=tmp_path)
    prompt = PromptBuilder(live.engine.template, live.engine.tokenizer).build([Message("user", (Text(TASKS[0]),))])
    live.prefill(plan_of(FULL, [*prompt.tokens.tolist(), *upstream.answers[0]]))
    first.put(live.engine.harvest("r0"), answer=len(prompt))
    first.close()
    again, known = Store(layout, 1 << 30, folder=tmp_path), KnownAnswers()
    known.learn(again.answers(), live.engine.tokenizer.piece)
    plan = plan_for(live, Upstream(again, known, upstream.answers, upstream.texts), json.dumps(upstream.texts[0]))
    assert plan.count(Kind.SPAN) >= 0.8 * len(upstream.answers[0])
