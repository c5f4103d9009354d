"""Actions that change who runs and how: agents, policy, sampling, model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from relaylite import paths
from relaylite.chain.agents import Agent
from relaylite.errors import RelayliteError
from relaylite.reuse.policies import FIDELITIES, POLICIES, parse_policy
from relaylite.settings.toml_file import read_toml
from relaylite.tui.agents_toml import with_agents
from relaylite.tui.engine.opener import Progress
from relaylite.tui.sampling_values import choose_for_all
from relaylite.tui.screens.agents_dialog import AgentsDialog, ChainChoice
from relaylite.tui.screens.dialog import ChoiceDialog
from relaylite.tui.screens.main import documents
from relaylite.tui.screens.main.desk import Desk
from relaylite.tui.screens.model_dialog import ModelDialog
from relaylite.tui.screens.sampling_dialog import SamplingDialog

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
        state = desk.state
        dialog = AgentsDialog(state.agents, state.pauses, state.known, selected, sampling_in_force(desk), partial(keep_agents, desk))
        desk.app.push_screen(dialog, partial(_take_agents, desk))


async def _take_agents(desk: Desk, choice: ChainChoice | None) -> None:
    if choice is not None:
        state, strip = desk.state, desk.parts.chain
        state.agents, state.pauses = choice.agents, choice.pauses
        await strip.set_agents(state.agents)
        strip.set_pauses(set(state.pauses))
        _configure(desk)


def keep_agents(desk: Desk, agents: Sequence[Agent]) -> None:
    """Write those that differ from the known ones into the user's agents file, after a look at what changes there."""
    state, path = desk.state, desk.app.settings.agents_file or paths.agents_file()
    edited = [agent for agent in agents if state.known.get(agent.name) != agent]
    if not edited:
        desk.app.notify("Nothing to keep: these agents are as they are known.")
        return

    def take_over() -> None:
        state.known = {**state.known, **{agent.name: agent for agent in edited}}

    try:
        read_toml(path, may_be_missing=True)
        text = with_agents(paths.read_whole(path).decode("utf-8-sig") if path.exists() else "", edited)
    except RelayliteError as error:
        desk.app.notify(str(error), title="Failed", severity="error")
    else:
        documents.write(desk, text, path, then=take_over)


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
        _configure(desk)


def sampling(desk: Desk) -> None:
    """Temperature, max tokens and seed of all agents."""
    if not desk.refuses():
        in_force = {name: value for name, value in sampling_in_force(desk).items() if value is not None}
        desk.app.push_screen(SamplingDialog(desk.state.agents, in_force), partial(_take_sampling, desk))


def sampling_in_force(desk: Desk) -> dict[str, Any]:
    """The values for all agents: what the settings say, and what was chosen since in its place."""
    return {**desk.app.settings.sampling(), **desk.state.sampling}


async def _take_sampling(desk: Desk, changes: Mapping[str, Any] | None) -> None:
    if changes:
        state = desk.state
        state.agents, state.sampling = choose_for_all(state.agents, state.sampling, changes)
        await desk.parts.chain.set_agents(state.agents)
        _configure(desk)


def _configure(desk: Desk) -> None:
    desk.engine.configure(desk.state.agents, desk.state.policy, desk.state.sampling)


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
    desk.parts.status.show_progress(Progress("looking for the model", None))
    desk.engine.open(name)
