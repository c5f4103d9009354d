"""Figures of one turn: time to first token by stage, tokens by kind, speed, memory, context, and what was saved so far."""

from __future__ import annotations

from collections.abc import Iterable

from textual.content import Content

from relaylite.engine.interface import Memory
from relaylite.metrics import STAGES, TurnMetrics
from relaylite.tui.conversation import Conversation, TurnRecord
from relaylite.tui.text import figures
from relaylite.tui.widgets.quiet import QuietStatic

FigureLine = tuple[str, str, str]  # label, value, bar
LABEL_WIDTH = 15
VALUE_WIDTH = 9
STAGE_NAMES = {"rectify": "repair"}  # where the app's word is another than that of `--json`


def ttft_lines(metrics: TurnMetrics, bar_width: int) -> Iterable[FigureLine]:
    total = metrics.ttft_parts_ms.total or 1.0
    for stage in STAGES:
        ms = getattr(metrics.ttft_parts_ms, stage)
        yield f"  {STAGE_NAMES.get(stage, stage)}", figures.milliseconds(ms), figures.bar(ms / total, bar_width)


def token_lines(metrics: TurnMetrics, bar_width: int) -> Iterable[FigureLine]:
    total = metrics.prompt_tokens or 1
    kinds = (
        ("prefix", metrics.prefix_tokens),
        ("relayed", metrics.span_tokens),
        ("recomputed", metrics.recomputed_tokens),
        ("new", metrics.computed_tokens),
    )
    for label, n in kinds:
        indent = "    " if label == "recomputed" else "  "
        yield f"{indent}{label}", figures.count(n), figures.bar(n / total, bar_width)


class MetricsPanel(QuietStatic):
    """Shows the last turn, or the one that is selected in the transcript."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__(id="metrics")
        self._conversation = conversation
        self._record: TurnRecord | None = None
        self._memory: Memory | None = None
        self.border_title = "Figures"

    def show_turn(self, record: TurnRecord | None) -> None:
        self._record = record
        self._redraw()

    def show_memory(self, memory: Memory) -> None:
        self._memory = memory
        self._redraw()

    def on_mount(self) -> None:
        self._redraw()

    def on_resize(self) -> None:
        self._redraw()

    def _redraw(self) -> None:
        super().show(self.content_of(self._record))

    def content_of(self, record: TurnRecord | None) -> Content:
        """The panel's text for a turn."""
        lines = [*self._turn_lines(record), *self._total_lines()]
        return Content("\n").join(lines)

    def _row(self, label: str, value: str, bar: str = "", color: str = "$primary", strong: bool = False) -> Content:
        return Content.assemble(
            (label.ljust(LABEL_WIDTH), "bold $foreground" if strong else "$muted"),
            (value.rjust(VALUE_WIDTH), "bold $foreground" if strong else "$foreground"),
            (f"  {bar}", color),
        )

    def _turn_lines(self, record: TurnRecord | None) -> Iterable[Content]:
        metrics = record.metrics if record is not None else None
        if record is None or metrics is None:
            yield Content.styled("Nothing measured yet.", "$muted")
            return
        width = max(4, self.size.width - LABEL_WIDTH - VALUE_WIDTH - 2)
        yield Content.assemble((record.agent, "bold"), (f" · message {record.round + 1}", "$muted"))
        yield self._row("TTFT", figures.milliseconds(metrics.ttft_ms), strong=True)
        for label, value, bar in ttft_lines(metrics, width):
            yield self._row(label, value, bar, "$secondary")
        yield self._full_line(record, metrics)
        yield self._row("Prompt", f"{figures.count(metrics.prompt_tokens)} tk", strong=True)
        colors = ("$map-prefix", "$map-reused", "$map-recomputed", "$map-new")
        for (label, value, bar), color in zip(token_lines(metrics, width), colors, strict=True):
            yield self._row(label, value, bar, color)
        yield self._row("Reuse ratio", figures.percent(metrics.reuse_ratio), "of relayed cells", "$muted", strong=True)
        yield self._row("Prompt reuse", figures.percent(metrics.prompt_reuse), "of all its cells", "$muted", strong=True)
        if n_written := record.n_tokens or metrics.generated_tokens:
            speed = f"{metrics.decode_tokens_per_s:.1f} tk/s" if metrics.decode_tokens_per_s else ""
            yield self._row("Written", f"{figures.count(n_written)} tk", speed, "$muted", strong=True)
        if metrics.context_size:
            share = record.context_used / metrics.context_size
            yield self._row(
                "Context",
                figures.percent(share),
                f"{figures.count(record.context_used)} of {figures.count(metrics.context_size)}",
                "$muted",
                strong=True,
            )

    def _full_line(self, record: TurnRecord, metrics: TurnMetrics) -> Content:
        full = record.full_prefill
        if full is None:
            return self._row("  full", "unknown", "F6 measures", "$muted")
        ms, is_measured = full
        ratio = f"{ms / metrics.ttft_ms:.1f}×" if metrics.ttft_ms > 0 else ""
        sign = "" if is_measured else "≈ "
        return self._row("  full", sign + figures.milliseconds(ms), f"{ratio} {'measured' if is_measured else 'estimated'}", "$muted")

    def _total_lines(self) -> Iterable[Content]:
        if self._memory is not None:
            used = (
                self._memory.resident_bytes
                or self._memory.model_bytes + self._memory.kv_bytes + self._memory.compute_bytes + self._memory.store_bytes
            )
            yield self._row("Memory", figures.size(used), f"{figures.size(self._memory.store_bytes)} of rows", "$muted", strong=True)
        saved, n_turns, is_measured = self._conversation.saved()
        if n_turns:
            note = f"in {n_turns} turn{'s' if n_turns > 1 else ''}{'' if is_measured else ' (est.)'}"
            yield self._row("Saved", figures.milliseconds(saved), note, "$muted", strong=True)
