"""`TurnMeter`: what one turn cost, counted while its prompt is placed and its answer is written."""

from __future__ import annotations

from relaylite.engine.interface import Delta, WriterLike
from relaylite.metrics import Stopwatch, TtftParts, TurnMetrics
from relaylite.reuse.plan import Kind
from relaylite.runs.prefilling import Prefilled
from relaylite.store.prefill_speed import PrefillSpeed


class TurnMeter:
    """Fills `metrics`. Times are those of computing, without what others do between the steps. `text`: what each token showed."""

    def __init__(self, n_prompt: int, n_ctx: int) -> None:
        self.metrics = TurnMetrics(prompt_tokens=n_prompt, context_size=n_ctx)
        self.text: list[str] = []
        self._decode_ms = 0.0

    def placed(self, done: Prefilled, render_ms: float, speed: PrefillSpeed) -> None:
        """The prompt is in place. `render_ms`: what making prompt and plan took; `speed`: that of computing tokens here."""
        metrics, plan, prefill = self.metrics, done.plan, done.prefill
        metrics.prefix_tokens, metrics.span_tokens = plan.count(Kind.PREFIX), plan.count(Kind.SPAN)
        metrics.computed_tokens = plan.count(Kind.NEW)
        metrics.recomputed_tokens = prefill.cells.recomputed_tokens
        metrics.reuse_ratio, metrics.prompt_reuse = prefill.cells.reuse_ratio, prefill.cells.prompt_reuse
        full = speed.estimate(0, metrics.prompt_tokens)
        metrics.full_ttft_estimate_ms, metrics.full_ttft_low_ms, metrics.full_ttft_high_ms = full.ms, full.low_ms, full.high_ms
        behind = speed.estimate(metrics.prefix_tokens, metrics.prompt_tokens)
        metrics.prefix_ttft_estimate_ms, metrics.prefix_ttft_low_ms, metrics.prefix_ttft_high_ms = behind.ms, behind.low_ms, behind.high_ms
        metrics.ttft_parts_ms = TtftParts(render_ms, prefill.place_ms, prefill.repair_ms, prefill.suffix_ms)
        metrics.ttft_ms = render_ms + done.took_ms

    def step(self, writer: WriterLike) -> Delta | None:
        """The next token, timed: the first one belongs to the time to first token. None when the answer has ended."""
        watch = Stopwatch()
        delta = next(writer, None)
        took_ms = watch.ms()
        if not self.text:
            self.metrics.ttft_parts_ms.sample = took_ms
            self.metrics.ttft_ms += took_ms
        elif delta is not None:
            self._decode_ms += took_ms
        if delta is not None:
            self.text.append(delta.text)
        return delta

    def ended(self) -> TurnMetrics:
        """With the figures of the answer as it stands."""
        metrics, n_tokens = self.metrics, len(self.text)
        metrics.generated_tokens = n_tokens
        metrics.context_used = metrics.prompt_tokens + n_tokens
        metrics.decode_tokens_per_s = (n_tokens - 1) * 1000 / self._decode_ms if self._decode_ms else 0.0
        return metrics
