"""Colours and signs: themes, agent colours, cell kinds, states. Each meaning has a sign as well as a colour."""

from __future__ import annotations

from textual.color import Color, ColorParseError
from textual.theme import Theme

from relaylite.chain.agents import Agent
from relaylite.metrics import CellMap
from relaylite.tui.conversation import State

AGENT_COLORS = 6
_NAMES = ("muted", *(f"agent-{i}" for i in range(AGENT_COLORS)), "map-prefix", "map-reused", "map-recomputed", "map-new")


def _colors(values: str) -> dict[str, str]:
    return dict(zip(_NAMES, values.split(), strict=True))


# The cells' colours differ in luminance too, from the quiet prefix to the loud new, so that greys tell them apart.
_DARK = _colors("#868c99 #56b6c2 #98c379 #c678dd #e5c07b #61afef #e06c75 #3a4356 #3f7fb8 #f0a63c #d5d8de")
_LIGHT = _colors("#646b77 #0b7285 #2b7a2f #8a3fa0 #8f6200 #1c5fb0 #b3303c #cfd5df #6ea3d8 #b8640a #1d2430")


def _quiet(primary: str, background: str, muted: str, cursor: str, bar: str) -> dict[str, str]:
    """Footer, scroll bars and the cursor of lists without loud grounds. Theme variables cannot refer to each other, hence the values."""
    grounds = ("footer", "footer-description", "footer-key", "footer-item", "scrollbar", "scrollbar-corner-color")
    return {
        **{name if name.endswith("color") else f"{name}-background": background for name in grounds},
        "scrollbar-background-hover": background,
        "scrollbar-background-active": background,
        "scrollbar": bar,
        "scrollbar-hover": muted,
        "scrollbar-active": primary,
        "footer-description-foreground": muted,
        "footer-key-foreground": primary,
        "block-cursor-background": cursor,
        "block-cursor-foreground": primary,
        "block-cursor-blurred-background": cursor,
        "block-cursor-text-style": "none",
        "block-cursor-blurred-text-style": "none",
    }


DARK = Theme(
    "relay-dark",
    primary="#7aa2f7",
    secondary="#56b6c2",
    accent="#f0a63c",
    warning="#e5c07b",
    error="#e06c75",
    success="#98c379",
    foreground="#c8ccd4",
    background="#16181d",
    surface="#1b1e25",
    panel="#22262f",
    dark=True,
    variables=_DARK | _quiet("#7aa2f7", "#16181d", "#868c99", "#2a3040", "#363c49"),
)
LIGHT = Theme(
    "relay-light",
    primary="#2457b5",
    secondary="#0b7285",
    accent="#b8640a",
    warning="#8f6200",
    error="#b3303c",
    success="#2b7a2f",
    foreground="#22262e",
    background="#fbfbf9",
    surface="#f3f3ef",
    panel="#e9e9e4",
    dark=False,
    variables=_LIGHT | _quiet("#2457b5", "#fbfbf9", "#646b77", "#dde6f5", "#c9ccd2"),
)
VARIABLE_DEFAULTS = dict(_DARK)

_TERMINAL_COLORS = {"red": 5, "green": 1, "yellow": 3, "blue": 4, "magenta": 2, "cyan": 0}

STATE_SIGNS: dict[State, str] = {
    "waiting": "○", "reusing": "◔", "repairing": "◑", "reading": "◕", "writing": "●", "done": "✓", "failed": "×", "stopped": "■",
}  # fmt: skip
STATE_COLORS: dict[State, str] = {
    "waiting": "$muted", "reusing": "$secondary", "repairing": "$accent", "reading": "$secondary", "writing": "$primary",
    "done": "$success", "failed": "$error", "stopped": "$warning",
}  # fmt: skip
READS_SIGNS = {"all": "»", "previous": "›", "task": "·"}
PAUSE_SIGN = "‖"

CELL_KINDS = {
    CellMap.PREFIX: ("prefix", "prefix", "·"),
    CellMap.REUSED: ("relayed", "reused", "░"),
    CellMap.RECOMPUTED: ("recomputed", "recomputed", "▓"),
    CellMap.NEW: ("new", "new", "█"),
}
MIXED_SIGN = "▒"


def agent_color(agent: Agent | None, index: int) -> str:
    """A theme variable or colour value for an agent: its own colour if it names one, else one by its place."""
    own = agent.color if agent is not None else ""
    if own in _TERMINAL_COLORS:
        return f"$agent-{_TERMINAL_COLORS[own]}"
    if own == "white":
        return "$foreground"
    try:
        return Color.parse(own).hex if own else f"$agent-{index % AGENT_COLORS}"
    except ColorParseError:
        return f"$agent-{index % AGENT_COLORS}"
