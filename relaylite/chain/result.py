"""`ChainResult`: what one run of a chain gave and cost, and its JSON form. The field names there do not change."""

from __future__ import annotations

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
