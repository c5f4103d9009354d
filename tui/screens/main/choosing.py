"""Actions that change who runs and how: agents, policy, model."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from relaylite.reuse.policies import FIDELITIES, POLICIES, parse_policy
from relaylite.tui.screens.agents_dialog import AgentsDialog, ChainChoice
from relaylite.tui.screens.dialog import ChoiceDialog
from relaylite.tui.screens.main.desk import Desk
from relaylite.tui.screens.model_dialog import ModelDialog

POLICY_ABOUT = {
    "full": "Compute every prompt from nothing: the reference",
    "prefix": "Take over the longest exact prefix, as llama-server does",
    "naive": "Take over prefix and relayed text, repair nothing: fastest, least true",
    "relay:fast": "Relay and repair the fewest cells",
    "relay": "Relay and repair what the new text before it changes: the default",
    "relay:careful": "Relay and repair more cells",
}


def agents(desk: Desk, selected: int = 0) -> None:
    if not desk.refuses():
        dialog = AgentsDialog(desk.state.agents, desk.state.pauses, desk.state.known, selected)
        desk.app.push_screen(dialog, partial(_take_agents, desk))


async def _take_agents(desk: Desk, choice: ChainChoice | None) -> None:
    if choice is not None:
        state, strip = desk.state, desk.parts.chain
        state.agents, state.pauses = choice.agents, choice.pauses
        await strip.set_agents(state.agents)
        strip.set_pauses(set(state.pauses))
        desk.engine.configure(state.agents, state.policy)


def policies() -> list[tuple[str, str, str]]:
    """All policies for a dialog: id, name, a sentence."""
    names = [name for name in POLICIES if name != "relay"] + [f"relay:{fidelity}".removesuffix(":balanced") for fidelity in FIDELITIES]
    return [(name, name, POLICY_ABOUT[name]) for name in names]


def policy(desk: Desk) -> None:
    if not desk.refuses():
        desk.app.push_screen(ChoiceDialog("Policy", policies(), desk.state.policy.label), partial(_take_policy, desk))


def _take_policy(desk: Desk, name: str | None) -> None:
    if name is not None:
        state = desk.state
        state.policy = parse_policy(name)
        desk.parts.chain.set_policy(state.policy, state.relay_refusal)
        desk.engine.configure(state.agents, state.policy)


def model(desk: Desk) -> None:
    if not desk.refuses():
        current = Path(desk.state.info.path).name if desk.state.info else ""
        desk.app.push_screen(ModelDialog(current), partial(_take_model, desk))


def _take_model(desk: Desk, name: str | None) -> None:
    if name is not None:
        open_model(desk, name)


def open_model(desk: Desk, name: str) -> None:
    """Open another model, or the first one; the conversation goes on."""
    desk.state.info, desk.state.is_opening = None, True
    desk.parts.top.show_opening(name)
    desk.engine.open(name)
