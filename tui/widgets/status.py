"""Two single lines, whose size never changes.

The top bar has model, context and time saved; the status line what happens now, or what the last turn cost.
"""

from __future__ import annotations

import time

from textual.content import Content

from relaylite.engine.interface import ModelInfo
from relaylite.terminal_text import one_line
from relaylite.tui import look
from relaylite.tui.conversation import Conversation, TurnRecord
from relaylite.tui.engine.opener import Progress
from relaylite.tui.text import figures
from relaylite.tui.widgets.quiet import QuietStatic

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class TopBar(QuietStatic):
    """Name, model, context filled, time saved."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__(id="top")
        self._conversation = conversation
        self._model = ""
        self._note = ""
        self._session = ""

    def show_session(self, name: str, *, is_read_only: bool) -> None:
        self._session = f"{one_line(name, 40)}{' (read only)' if is_read_only else ''}"
        self.redraw()

    def show_model(self, info: ModelInfo) -> None:
        self._model, self._note = one_line(info.name, 48), ""
        self.redraw()

    def show_opening(self, model: str) -> None:
        self._model, self._note = one_line(model, 48), "opening…"
        self.redraw()

    def show_failed(self, model: str) -> None:
        self._model, self._note = one_line(model, 48), "not opened; Ctrl+L chooses another"
        self.redraw()

    def on_resize(self) -> None:
        self.redraw()

    def redraw(self) -> None:
        left = Content.assemble((" relaylite ", "bold $primary"), (self._model, "$foreground"), (f" {self._note}", "$muted"))
        session = Content.styled(f" · {self._session}" if self._session else "", "$muted")
        right = Content.assemble((self._filled(), "$muted"), (self._saved(), "$success"), " ")
        if self.size.width > left.cell_length + session.cell_length + right.cell_length:
            left += session
        space = self.size.width - left.cell_length - right.cell_length
        self.show(left if space < 1 else Content.assemble(left, " " * space, right))

    def _filled(self) -> str:
        last = self._conversation.last
        if last is None or last.metrics is None or not last.metrics.context_size:
            return ""
        return f"context {figures.count(last.context_used)}/{figures.count(last.metrics.context_size)}"

    def _saved(self) -> str:
        saved, error, n_turns = self._conversation.saved()
        return f"  relaying saved ≈ {figures.milliseconds(saved)} ± {figures.percent(error / saved)}" if n_turns and saved > error else ""


class StatusLine(QuietStatic):
    """The running turn with a spinner and seconds; else the last turn in one line."""

    def __init__(self) -> None:
        super().__init__(id="status")
        self._tick = 0
        self._progress: Progress | None = None
        self._stage_since = 0.0

    def show_running(self, record: TurnRecord | None, seconds: float) -> None:
        self._tick += 1
        sign = SPINNER[self._tick % len(SPINNER)]
        what = f"{record.agent} {record.state}" if record is not None else "starting"
        color = look.STATE_COLORS[record.state] if record is not None else "$secondary"
        written = f" · {figures.count(record.n_tokens)} tokens" if record is not None and record.n_tokens else ""
        self.show(Content.assemble((f" {sign} ", color), (what, color), (f" {seconds:.1f} s{written} · Esc stops", "$muted")))

    def show_progress(self, progress: Progress) -> None:
        """How far fetching, loading or checking a model is; `spin` keeps it moving."""
        if self._progress is None or self._progress.stage != progress.stage:
            self._stage_since = time.monotonic()
        self._progress = progress
        self.spin()

    def spin(self) -> None:
        """Draw the progress again: a sign that turns, and the seconds of the stage."""
        progress = self._progress
        if progress is None:
            return
        self._tick += 1
        share = progress.fraction or 0.0
        filled = round(24 * share) if progress.fraction is not None else 0
        bar, rest = ("━" * filled, "━" * (24 - filled)) if progress.fraction is not None else ("", "")
        facts = f" {figures.percent(share)} · Esc stops" if progress.fraction is not None else ""
        self.show(
            Content.assemble(
                (f" {SPINNER[self._tick % len(SPINNER)]} ", "$secondary"),
                (f"{one_line(progress.stage, 40)} ", "$foreground"),
                (bar, "$primary"),
                (rest, "$panel"),
                (f"{facts} {time.monotonic() - self._stage_since:.0f} s", "$muted"),
            ),
        )

    def show_measuring(self, share: float | None) -> None:
        """`share` of the estimated time of a full prefill has passed; None where that is not known."""
        far = "" if share is None else f" ≈ {figures.percent(min(share, 0.99))}"
        self.show_text(f"Measuring a full prefill…{far} · Esc stops")

    def show_comparing(self, policy: str, n_tokens: int) -> None:
        """So many tokens of the answer under that policy are written."""
        self.show_text(f"Comparing with {policy}… {figures.count(n_tokens)} tokens · Esc stops")

    def end_progress(self) -> None:
        self._progress = None

    def show_text(self, text: str, style: str = "$muted") -> None:
        self.show(Content.styled(f" {text}", style))

    def show_turn(self, record: TurnRecord | None) -> None:
        metrics = record.metrics if record is not None else None
        if record is None or metrics is None:
            self.show(Content(""))
            return
        full = record.full_prefill
        against = ""
        if full is not None and metrics.prefix_tokens + metrics.span_tokens:
            error = "" if full[1] or not metrics.full_error else f" ± {figures.percent(metrics.full_error)}"
            against = f" (full {'' if full[1] else '≈ '}{figures.milliseconds(full[0])}{error})"
        self.show(
            Content.assemble(
                (f" {look.STATE_SIGNS[record.state]} ", look.STATE_COLORS[record.state]),
                (record.agent, "bold"),
                (f" TTFT {figures.milliseconds(metrics.ttft_ms)}{against}", "$foreground"),
                (f" · prompt reuse {figures.percent(metrics.prompt_reuse)}", "$muted"),
                (f" · {metrics.decode_tokens_per_s:.0f} tokens/s" if metrics.decode_tokens_per_s else "", "$muted"),
            ),
        )
