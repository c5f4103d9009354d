"""A comparison of two policies in a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from relaylite.cli.narrator import seconds
from relaylite.terminal_text import one_line

if TYPE_CHECKING:
    from relaylite.chain.result import Comparison
    from relaylite.events import Turn

BEFORE, BEHIND = 24, 40  # characters that are shown around the first difference


def comparison_lines(compared: Comparison) -> Iterator[str]:
    """What differs first, both texts around it, and what each cost."""
    titles = ("this answer", compared.policy)
    width = max(map(len, titles))
    turns = tuple(zip(titles, (compared.turn, compared.other), compared.words, strict=True))
    if compared.differs_at is None:
        yield f"[{compared.turn.agent}] the same {len(compared.turn.tokens)} tokens under {compared.policy}"
    else:
        yield (
            f"[{compared.turn.agent}] parts from {compared.policy} at token {compared.differs_at + 1}; "
            f"{compared.equal_share:.0%} of the tokens stand at the same place"
        )
        for title, turn, word in turns:
            yield f"  {title:<{width}}  {_around(turn.text, compared.n_alike, word)}"
    for title, turn, _ in turns:
        yield f"  {title:<{width}}  {_cost(turn)}"


def _around(text: str, at: int, word: str) -> str:
    end = at + len(word)
    before, behind = text[max(0, at - BEFORE) : at], text[end : end + BEHIND]
    return one_line(f"{'…' if at > BEFORE else ''}{before}[{word or 'the end'}]{behind}{'…' if end + BEHIND < len(text) else ''}", 120)


def _cost(turn: Turn) -> str:
    metrics = turn.metrics
    reuse = f"prompt reuse {metrics.prompt_reuse:.2f}, {metrics.recomputed_share:.0%} of the relayed tokens recomputed"
    return f"TTFT {seconds(metrics.ttft_ms)}, {reuse}"
