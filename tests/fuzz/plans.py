"""Fuzzes the span planner: a store that lives through many turns, prompts of repeating texts, every policy; and the alignment of templates.

Rows tell which tokens they rest on, so that one in a wrong place shows. With a store that never has to forget, what is found is
compared with a naive search over everything that was put in.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.sample_rows import LAYOUT, row_bytes, rows_of

from relaylite.prompt.alignment import align
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import POLICIES, Policy
from relaylite.reuse.rows import Rows
from relaylite.store import Store

N_TURNS = 12
PLENTY = 1 << 30
SHORT = Policy("naive", use_prefix=True, use_spans=True, min_span=4)


def run(rng: np.random.Generator, folder: Path) -> None:
    for _ in range(20):
        fuzz_alignment(rng)
    policies = [*POLICIES.values(), SHORT, SHORT]
    budget = int(rng.choice([PLENTY, PLENTY, 3_000, 12_000]))
    is_on_disk = bool(rng.random() < 0.3)
    conversation = Conversation(rng, Store(LAYOUT, budget, folder=folder / "store" if is_on_disk else None))
    for turn in range(N_TURNS):
        conversation.turn(policies[rng.integers(len(policies))], is_complete=budget == PLENTY)
        if is_on_disk and rng.random() < 0.2:
            conversation.store.close()
            conversation.store = Store(LAYOUT, budget, folder=folder / "store")
            if turn % 2:
                conversation.store.flush()


class Conversation:
    """Texts that come again and again in prompts, and what a store was given of them."""

    def __init__(self, rng: np.random.Generator, store: Store) -> None:
        self.rng, self.store = rng, store
        n_words = int(rng.choice([2, 3, 50, 1000]))
        self.texts = [rng.integers(0, n_words, int(rng.integers(1, 60))).tolist() for _ in range(5)]
        self.put: list[Rows] = []

    def prompt(self) -> list[int]:
        tokens: list[int] = []
        for _ in range(int(self.rng.integers(1, 6))):
            text = self.texts[self.rng.integers(len(self.texts))]
            start = int(self.rng.integers(len(text))) if self.rng.random() < 0.4 else 0
            end = int(self.rng.integers(start + 1, len(text) + 1)) if self.rng.random() < 0.4 else len(text)
            tokens += text[start:end]
        return tokens

    def turn(self, policy: Policy, *, is_complete: bool) -> None:
        tokens = self.prompt()
        plan = make_plan(tokens, self.store, policy)
        check_plan(plan, tokens, policy)
        if is_complete:
            self.check_nothing_missed(plan, policy)
        n_exact = plan.n_exact
        answer = self.texts[self.rng.integers(len(self.texts))]
        rows = rows_of([*tokens, *answer], n_exact=len(tokens) + len(answer) if n_exact == len(tokens) else n_exact, salt="relayed")
        self.store.put(rows)
        self.put.append(rows)

    def check_nothing_missed(self, plan: Plan, policy: Policy) -> None:
        tokens = plan.tokens.tolist()
        if policy.use_prefix:
            known = [common(rows.tokens.tolist(), tokens, rows.n_exact if policy.is_exact else len(rows)) for rows in self.put]
            assert plan.count(Kind.PREFIX) == min(max(known, default=0), len(tokens) - 1)
        if not policy.use_spans:
            return
        for gap in plan.of(Kind.NEW):  # what is left over holds no run that would have been long enough
            left = tokens[gap.start : min(gap.end, len(tokens) - 1)]
            windows = {tuple(left[i : i + policy.min_span]) for i in range(len(left) - policy.min_span + 1)}
            for rows in self.put:
                text = rows.tokens.tolist()
                assert not windows & {tuple(text[i : i + policy.min_span]) for i in range(len(text) - policy.min_span + 1)}


def check_plan(plan: Plan, tokens: list[int], policy: Policy) -> None:
    """Segments tile the prompt (`Plan` itself refuses others), hold its tokens, and their rows are those of the tokens before them."""
    assert plan.tokens.tolist() == tokens
    assert policy.use_prefix or not plan.count(Kind.PREFIX)
    assert policy.use_spans or not plan.count(Kind.SPAN)
    for segment in plan.segments:
        rows, offset, n = segment.rows, segment.offset, len(segment)
        if rows is None:
            continue
        found = rows.tokens.tolist()
        assert found[offset : offset + n] == tokens[segment.start : segment.end]
        assert row_bytes(rows, offset, n) == expected_bytes(rows, offset, n)
        if segment.kind is Kind.PREFIX:
            assert segment.rotation == segment.start == 0 and found[:n] == tokens[:n]
            assert not policy.is_exact or segment.n_exact == n
        else:
            assert n >= min(policy.min_span, len(tokens) - 1 - segment.start)


def expected_bytes(rows: Rows, offset: int, n: int) -> list[bytes]:
    """Rows that were put begin at position 0; so do those of a match, or the tokens before them are unknown here."""
    if rows.position:
        return row_bytes(rows, offset, n)
    return row_bytes(rows_of(rows.tokens, n_exact=rows.n_exact, salt="relayed"), offset, n)


def common(a: list[int], b: list[int], most: int) -> int:
    n = 0
    while n < min(len(a), len(b), most) and a[n] == b[n]:
        n += 1
    return n


def fuzz_alignment(rng: np.random.Generator) -> None:
    """Trimmed or rewritten fragments between texts: ranges lie inside the fragments and, if all were trimmed only, say what is there."""
    letters = np.array(list("ab <|>\n/"))

    def text(most: int) -> str:
        return "".join(rng.choice(letters, int(rng.integers(most))))

    n = int(rng.integers(1, 5))
    texts, fragments = [text(4) for _ in range(n + 1)], [text(12) for _ in range(n)]
    trims = [str, str.strip, str.lstrip, str.rstrip, lambda s: s[::-1], lambda s: ""]
    kept = [trims[rng.integers(len(trims))](fragment) for fragment in fragments]
    rendered = texts[0] + "".join(part + after for part, after in zip(kept, texts[1:], strict=True))
    is_foreign = rng.random() < 0.2
    if is_foreign:
        rendered = text(30)
    ranges = align(texts, fragments, rendered)
    assert len(ranges) == n
    assert all(0 <= start <= end <= len(fragment) for (start, end), fragment in zip(ranges, fragments, strict=True))
    said = texts[0] + "".join(
        fragment[start:end] + after for fragment, (start, end), after in zip(fragments, ranges, texts[1:], strict=True)
    )
    is_rewritten = is_foreign or any(part not in fragment for part, fragment in zip(kept, fragments, strict=True))
    assert said == rendered or is_rewritten, (texts, fragments, rendered, ranges)
