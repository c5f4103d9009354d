"""What became of the tokens of a prompt: what was taken over and from where, and why known text was not. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from relaylite.completion.answer import Missed, Reuse, TakenOver
from relaylite.completion.tenant import KnownPrompt
from relaylite.engine.interface import ModelInfo
from relaylite.events import PromptPart
from relaylite.metrics import CellMap
from relaylite.prompt.known_answers import Located
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.policies import Policy


def reuse_of(plan: Plan, known: KnownPrompt, cells: CellMap, info: ModelInfo, asked: Policy) -> Reuse:
    """Of a plan that was carried out for a prompt. `asked`: the policy that the request asked for."""
    taken = tuple(
        TakenOver(segment.start, segment.end, segment.kind.value, segment.rows.origin)
        for segment in plan.segments
        if segment.rows is not None
    )
    recomputed = 1 - cells.reuse_ratio if plan.count(Kind.SPAN) else 0.0
    return Reuse(taken, (*_changed(known.located), *_missed(plan, known.prompt.parts, info, asked)), recomputed)


def _changed(located: Sequence[Located]) -> Iterator[Missed]:
    for each in located:
        if each.n_changed:
            yield Missed(each.source, each.n_changed, "changed: the text is not that of the answer there")


def _missed(plan: Plan, parts: Sequence[PromptPart], info: ModelInfo, asked: Policy) -> Iterator[Missed]:
    """Known answers in the prompt whose tokens were computed.

    The last token of a prompt always is; so is the last one of an answer that was cut, which never had a row.
    """
    is_new = np.zeros(len(plan.tokens) + 1, bool)
    is_new[plan.positions(Kind.NEW)] = True
    is_new[len(plan.tokens) - 1] = False
    start = 0
    for part in parts:
        end = start + len(part.tokens)
        n = int(is_new[start:end].sum())
        if part.kind == "answer" and n > is_new[end - 1]:
            yield Missed(part.source, n, _why(end - start, info, asked))
        start = end


def _why(n_tokens: int, info: ModelInfo, asked: Policy) -> str:
    if not asked.use_prefix:
        return f"policy: {asked.label} takes nothing over"
    if not asked.use_spans:
        return f"policy: {asked.label} takes over only what the prompt begins with"
    if info.relay_refusal:
        return f"model: {info.relay_refusal}"
    if n_tokens < asked.min_span:
        return f"short: text is taken over from {asked.min_span} tokens on"
    return "evicted: its rows are not in the store any more"
