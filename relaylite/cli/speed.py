"""`doctor`'s speed and relay check: a short chain on the model, once with everything computed and once relayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaylite.agents import Agent
from relaylite.cli.findings import NOTE, OK, PROBLEM, Finding
from relaylite.cli.narrator import seconds
from relaylite.cli.opening import open_relay
from relaylite.cli.run import events_of
from relaylite.cli.terminal import Output
from relaylite.config import load_settings
from relaylite.errors import RelayliteError
from relaylite.events import Turn, TurnFinished

if TYPE_CHECKING:
    from relaylite.api import Relay

TASK = "Explain in detail how a sorted list can be searched, and why that is fast."
AGENTS = (Agent("first", "Write a long answer."), Agent("second", "Comment on the answer."))
N_TOKENS = 96


def speed(model: str | None, output: Output) -> list[Finding]:
    """Prefill and decode speed, whether relaying works, and what it saves on this machine."""
    try:
        with open_relay(load_settings({"model": model}), output) as relay:
            output.status("measuring …")
            full, relayed = _second_turn(relay, "full"), _second_turn(relay, None)
            info = relay.info
    except RelayliteError as error:
        return [Finding(PROBLEM, "speed", str(error), "correct that, or name another model with --model")]
    computed = full.metrics
    found = [
        Finding(OK, "model", f"{info.name}, {info.n_params / 1e6:.0f} M parameters"),
        Finding(OK, "prefill", f"{computed.prompt_tokens * 1000 / max(computed.ttft_ms, 1e-3):.0f} tokens/s"),
        Finding(OK, "decode", f"{computed.decode_tokens_per_s:.1f} tokens/s"),
    ]
    if info.relay_refusal:
        return [*found, Finding(NOTE, "relaying", f"off for this model: {info.relay_refusal}", "use another model to relay")]
    saved = f"first token of the second agent after {seconds(relayed.metrics.ttft_ms)} instead of {seconds(computed.ttft_ms)}"
    if not relayed.metrics.span_tokens:
        return [
            *found,
            Finding(PROBLEM, "relaying", "nothing was relayed in a chain of two", "please report this with the output of --json"),
        ]
    return [*found, Finding(OK, "relaying", f"{relayed.metrics.span_tokens} tokens relayed: {saved}")]


def _second_turn(relay: Relay, policy: str | None) -> Turn:
    chain = relay.chain(AGENTS, policy=policy, sampling={"max_tokens": N_TOKENS})
    turns = [event.turn for event in events_of(chain, lambda: chain.stream(TASK)) if isinstance(event, TurnFinished)]
    return turns[-1]
