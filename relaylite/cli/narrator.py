"""`Narrator`: shows the events of a running chain as text, for `run` and the plain chat."""

from __future__ import annotations

from collections.abc import Iterable

from relaylite.chain.agents import Agent
from relaylite.cli.terminal import Output
from relaylite.events import ChainFinished, Event, Notice, Phase, PrefillDone, TextDelta, Turn, TurnFinished, TurnStarted
from relaylite.metrics import FINISH_CANCELLED, FINISH_LENGTH, TurnMetrics

_PHASES = {"render": "reads", "place": "takes over rows", "repair": "looks which rows to recompute", "suffix": "reads", "write": "writes"}


class Narrator:
    """Writes each answer to stdout under a heading, everything else to stderr, each notice once. Without `shows_answers`, no answers."""

    def __init__(self, output: Output, agents: Iterable[Agent], *, shows_answers: bool = True) -> None:
        self._output, self._agents = output, tuple(agents)
        self._shows_answers = shows_answers
        self._agent = ""
        self._noticed: set[str] = set()

    def show(self, event: Event) -> None:
        match event:
            case TurnStarted(agent=name, index=index):
                self._agent = name
                if self._shows_answers:
                    self._output.line(f"## {name}", color=self._agents[index].color)
            case Phase(name=phase):
                self._output.status(f"{self._agent} {_PHASES[phase]} …")
            case PrefillDone():
                self._output.status("")
            case TextDelta(text=text) if self._shows_answers:
                self._output.write(text)
            case TurnFinished(turn=turn):
                if self._shows_answers:
                    self._output.end_line()
                self._output.note(metrics_line(turn))
            case Notice(text=text, is_minor=is_minor) if text not in self._noticed:
                self._noticed.add(text)
                if not (is_minor and self._output.quiet):
                    self._output.notice(text)
            case ChainFinished():
                self._output.end_line()


def metrics_line(turn: Turn) -> str:
    """What a turn cost and took over, on one line."""
    m = turn.metrics
    limit = f"the context of {m.context_size} is full" if m.is_context_full else "max tokens reached"
    ended = {FINISH_LENGTH: f" (cut: {limit})", FINISH_CANCELLED: " (stopped)"}.get(turn.finish_reason, "")
    full = _against(m) if m.full_ttft_estimate_ms and m.prefix_tokens + m.span_tokens else ""
    return (
        f"[{turn.agent}] prompt {m.prompt_tokens} tokens = "
        f"{m.prefix_tokens} prefix + {m.span_tokens} relayed + {m.computed_tokens} new, "
        f"reuse ratio {m.reuse_ratio:.2f}, prompt reuse {m.prompt_reuse:.2f}, TTFT {seconds(m.ttft_ms)}{full}, "
        f"wrote {m.generated_tokens} tokens at {m.decode_tokens_per_s:.1f}/s{ended}"
    )


def _against(m: TurnMetrics) -> str:
    """What the time to first token would be without taking anything over, and with the prefix alone where more was taken over."""
    full = f"full ≈ {seconds(m.full_ttft_estimate_ms)} ± {m.full_error:.0%}"
    return f" ({full}, exact prefix ≈ {seconds(m.prefix_ttft_estimate_ms)} ± {m.prefix_error:.0%})" if m.span_tokens else f" ({full})"


def seconds(ms: float) -> str:
    """A time for people."""
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.2f} s"
