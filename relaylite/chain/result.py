"""`ChainResult`: what one run of a chain gave and cost, and its JSON form, whose field names do not change; `Comparison` of two answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from relaylite.events import Turn
from relaylite.terminal_text import fit_for_terminal


@dataclass(frozen=True, slots=True)
class ChainResult:
    """`turns` in chain order; `wall_ms` covers the last run; `notices` are lines that the user should read once."""

    model: str
    policy: str
    turns: tuple[Turn, ...]
    wall_ms: float
    peak_rss_mb: float
    notices: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The last agent's answer; "" if none has answered."""
        return self.turns[-1].text if self.turns else ""

    def to_dict(self) -> dict[str, Any]:
        """The document that `--json` prints: plain values, times in ms rounded to microseconds, shares in [0, 1]."""
        return {
            "model": self.model,
            "policy": self.policy,
            "agents": [_turn_to_dict(turn) for turn in self.turns],
            "wall_ms": round(self.wall_ms, 3),
            "peak_rss_mb": round(self.peak_rss_mb, 1),
            "notices": list(self.notices),
        }

    def _repr_html_(self) -> str:
        """For notebooks: each agent's figures, answer and cell map; the last answer is open. Nothing that an agent wrote becomes markup."""
        last = len(self.turns) - 1
        return "".join(
            [
                f"<div><b>{_html(self.model)}</b>, policy {_html(self.policy)}, {self.wall_ms / 1e3:.1f} s",
                *(f"<div>note: {_html(notice)}</div>" for notice in self.notices),
                *(_turn_to_html(turn, is_open=at == last) for at, turn in enumerate(self.turns)),
                "</div>",
            ]
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """An answer, and what the same agent answered to the same prompt under another policy.

    `policy`: the other one, by its label. `differs_at`: the place of the first token that differs, from 0, None if they are the same; the
    end of an answer counts as a token. `words`: the text of that token in both, "" where the answer has ended. `n_alike`: so many
    characters stand before it.
    """

    turn: Turn
    other: Turn
    policy: str
    differs_at: int | None
    words: tuple[str, str] = ("", "")
    n_alike: int = 0

    @classmethod
    def of(cls, turn: Turn, other: Turn, policy: str, piece: Callable[[int], bytes]) -> Comparison:
        """`piece`: the bytes of a token."""
        first, second = turn.tokens, other.tokens
        if first == second:
            return cls(turn, other, policy, None, n_alike=len(turn.text))
        at = next((n for n, (one, two) in enumerate(zip(first, second, strict=False)) if one != two), min(len(first), len(second)))
        begun = b"".join(map(piece, first[:at])).decode("utf-8", "ignore")
        words = [b"".join(map(piece, tokens[at : at + 1])).decode("utf-8", "replace") for tokens in (first, second)]
        return cls(turn, other, policy, at, (words[0], words[1]), len(begun))

    @property
    def equal_share(self) -> float:
        """Of the tokens of the longer answer, the share that stands at the same place in the other one."""
        first, second = self.turn.tokens, self.other.tokens
        n = max(len(first), len(second))
        return sum(one == two for one, two in zip(first, second, strict=False)) / n if n else 1.0


def _turn_to_dict(turn: Turn) -> dict[str, Any]:
    metrics = {key: _rounded(value) for key, value in asdict(turn.metrics).items()}
    return {"name": turn.agent, "text": turn.text, "finish_reason": turn.finish_reason, **metrics}


def _turn_to_html(turn: Turn, *, is_open: bool) -> str:
    m, opened = turn.metrics, ' open="open"' if is_open else ""
    figures = (
        f"first token {m.ttft_ms:.0f} ms; {m.prefix_tokens} prefix, {m.span_tokens} relayed, {m.computed_tokens} new tokens; "
        f"reuse ratio {m.reuse_ratio:.0%}"
    )
    return (
        f"<details{opened}><summary><b>{_html(turn.agent)}</b> ({_html(turn.finish_reason)}): {figures}</summary>"
        f'<pre style="white-space:pre-wrap">{_html(turn.text)}</pre>{turn.cells._repr_html_() if turn.cells is not None else ""}</details>'
    )


def _html(text: str) -> str:
    return escape(fit_for_terminal(text))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return round(value, 6 if value <= 1 else 3) if isinstance(value, float) else value
