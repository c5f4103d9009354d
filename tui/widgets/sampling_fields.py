"""Fields for the sampling values, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Label

from relaylite.tui import sampling_values
from relaylite.tui.widgets.fields import LineField


class SamplingFields(Horizontal):
    """An empty field is a value that is not set; its placeholder says what holds then."""

    def compose(self) -> ComposeResult:
        for name, label in sampling_values.LABELS.items():
            with Vertical():
                yield Label(label)
                yield LineField(id=name.replace("_", "-"), compact=True)

    def show(self, values: Mapping[str, Any], otherwise: Mapping[str, str]) -> None:
        """`otherwise`: placeholders by name."""
        for name in sampling_values.LABELS:
            field = self._field(name)
            field.value, field.placeholder = sampling_values.text_of(values.get(name)), otherwise.get(name, "")

    def texts(self) -> dict[str, str]:
        return {name: self._field(name).value for name in sampling_values.LABELS}

    def values(self) -> dict[str, Any]:
        """What the fields hold, None for an empty one. Raises UsageError in one line for what cannot be a value."""
        return {name: sampling_values.read(name, text) for name, text in self.texts().items()}

    def _field(self, name: str) -> Input:
        return self.query_one(f"#{name.replace('_', '-')}", Input)
