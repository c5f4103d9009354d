"""`Tally`: sums over all requests, counted as their events come."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock

from relaylite.completion.answer import CompletionEvent, Finished, Prefilled
from relaylite.completion.overview import State, Totals


class Tally:
    """May be used from several threads."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._lock = Lock()

    def count(self, event: CompletionEvent) -> None:
        if isinstance(event, Prefilled):
            n, reuse = len(event.prompt), event.reuse
            self._add(
                prompt_tokens=n,
                prefix_tokens=reuse.prefix_tokens,
                relayed_tokens=reuse.relayed_tokens,
                computed_tokens=n - reuse.prefix_tokens - reuse.relayed_tokens,
                prefill_seconds=event.prefill_ms / 1e3,
            )
        elif isinstance(event, Finished):
            self._add(generated_tokens=event.metrics.generated_tokens, decode_seconds=event.predicted_ms / 1e3)

    def ended(self, state: State) -> None:
        self._add(requests=1, cancelled=state == "cancelled", failed=state == "failed")

    def _add(self, **more: float) -> None:
        with self._lock:
            self.totals = replace(self.totals, **{name: getattr(self.totals, name) + n for name, n in more.items()})
