"""An answer, and what the same agent answers to the same prompt under another policy: both texts, where they part, and the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from relaylite.terminal_text import fit_for_terminal, one_line
from relaylite.tui.screens.dialog import Dialog
from relaylite.tui.text import figures
from relaylite.tui.widgets.transcript.answer import CURRENT_HIT_STYLE

if TYPE_CHECKING:
    from relaylite.chain.result import Comparison
    from relaylite.events import Turn

END = "■"  # stands where one of two answers has ended and the other goes on


class ComparisonDialog(Dialog[None]):
    """Both answers side by side, on a narrow screen one above the other. They scroll together."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll(-1)", "Up"),
        Binding("down,j", "scroll(1)", "Down"),
        Binding("pageup", "scroll(-8)", "Page up"),
        Binding("pagedown,space", "scroll(8)", "Page down"),
        Binding("d", "to_difference", "To the difference"),
    ]
    hint = "↑ ↓ scroll both · D goes to the first difference · Esc leaves"

    def __init__(self, comparison: Comparison) -> None:
        super().__init__()
        self.title_text = f"{one_line(comparison.turn.agent, 40)}: this answer and {comparison.policy}"
        self._comparison = comparison

    def compose(self) -> ComposeResult:
        compared = self._comparison
        with self.frame():
            yield Static(self._verdict(), classes="verdict")
            with Container(classes="answers"):
                for title, turn, word in zip(
                    ("this answer", compared.policy), (compared.turn, compared.other), compared.words, strict=True
                ):
                    with VerticalScroll(classes="side", can_focus=False) as side:
                        side.border_title = title
                        yield Static(self._marked(turn, word))
            yield Static(self._figures(), classes="figures")

    def on_mount(self) -> None:
        self.call_after_refresh(self.action_to_difference)

    def action_scroll(self, lines: int) -> None:
        for side in self.query(".side"):
            side.scroll_relative(y=lines, animate=False)

    def action_to_difference(self) -> None:
        """Have the first difference on the second line of both."""
        is_same = self._comparison.differs_at is None
        before = "" if is_same else self._comparison.turn.text[: self._comparison.n_alike]
        for side in self.query(".side"):
            width = max(1, side.scrollable_content_region.width)
            y = len(Content(fit_for_terminal(before) + "x").wrap(width)) - 1
            side.scroll_to(y=max(0, y - 1), animate=False)

    def _verdict(self) -> Content:
        compared = self._comparison
        if compared.differs_at is None:
            return Content.styled(f"The same {figures.count(len(compared.turn.tokens))} tokens.", "bold $success")
        first, second = (f"“{one_line(word, 20)}”" if word else "the end" for word in compared.words)
        return Content.assemble(
            (f"They part at token {figures.count(compared.differs_at + 1)}: ", "bold $warning"),
            (f"{first} here, {second} under {compared.policy}. ", "$foreground"),
            (f"{figures.percent(compared.equal_share)} of the tokens stand at the same place.", "$muted"),
        )

    def _marked(self, turn: Turn, word: str) -> Content:
        """The answer with what differs first marked."""
        compared, text = self._comparison, turn.text
        if compared.differs_at is None:
            return Content(fit_for_terminal(text))
        end = compared.n_alike + len(word)
        shown = fit_for_terminal(text[compared.n_alike : end]).replace("\n", "↵\n") if word else END
        return Content.assemble(
            (fit_for_terminal(text[: compared.n_alike]), "$muted"),
            (shown or END, CURRENT_HIT_STYLE),
            fit_for_terminal(text[end:]),
        )

    def _figures(self) -> Content:
        lines = [f"{'':<14}{'TTFT':>9}{'prompt reuse':>14}{'recomputed':>12}{'tokens':>8}"]
        for title, turn in (("this answer", self._comparison.turn), (self._comparison.policy, self._comparison.other)):
            metrics = turn.metrics
            lines.append(
                f"{title:<14}{figures.milliseconds(metrics.ttft_ms):>9}{figures.percent(metrics.prompt_reuse):>14}"
                f"{figures.percent(metrics.recomputed_share):>12}{figures.count(len(turn.tokens)):>8}"
            )
        return Content.assemble((lines[0] + "\n", "$muted"), "\n".join(lines[1:]))
