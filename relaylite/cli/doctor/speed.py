"""`doctor`'s check of speed: runs a chain of two agents, and compares the second one's prompt with a full prefill of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaylite.chain.agents import Agent
from relaylite.cli.chains import events_of
from relaylite.cli.doctor.checks import NOTE, OK, PROBLEM, Finding
from relaylite.cli.interrupts import Work
from relaylite.cli.narrator import seconds
from relaylite.cli.opening import open_relay
from relaylite.cli.terminal import Output
from relaylite.errors import RelayliteError
from relaylite.settings.settings import load_settings

if TYPE_CHECKING:
    from relaylite.api import Relay

TASK = "Explain in detail how a sorted list can be searched, and why that is fast."
AGENTS = (Agent("first", "Write a long answer."), Agent("second", "Comment on the answer."))
N_TOKENS = 96


def speed(model: str | None, output: Output) -> list[Finding]:
    """Prefill and decode speed, whether relaying works, and what it saves on this machine. Nothing is kept on disk."""
    try:
        with open_relay(load_settings({"model": model, "store.disk": 0}), output) as relay:
            return _measure(relay, output)
    except RelayliteError as error:
        return [Finding(PROBLEM, "speed", str(error), "correct that, or name another model with --model")]


def _measure(relay: Relay, output: Output) -> list[Finding]:
    chain, info = relay.chain(AGENTS, sampling={"max_tokens": N_TOKENS, "temperature": 0}), relay.info
    for event in events_of(chain, lambda: chain.stream(TASK)):
        output.status(f"measuring: {type(event).__name__}")
    full_ms: list[float] = []
    for _ in Work(lambda _: full_ms.append(chain.measure_full(0, 1)), chain.cancel):
        pass
    second = chain.rounds[0].turns[1].metrics
    found = [
        Finding(OK, "model", f"{info.name}, {info.n_params / 1e6:.0f} M parameters"),
        Finding(OK, "prefill", f"{second.prompt_tokens * 1000 / full_ms[0]:.0f} tokens/s"),
        Finding(OK, "decode", f"{second.decode_tokens_per_s:.1f} tokens/s"),
    ]
    if info.relay_refusal:
        return [*found, Finding(NOTE, "relaying", f"off for this model: {info.relay_refusal}", "use another model to relay")]
    if not second.span_tokens:
        return [
            *found,
            Finding(PROBLEM, "relaying", "nothing was relayed in a chain of two", "please report this with the output of --json"),
        ]
    saved = f"first token of the second agent after {seconds(second.ttft_ms)} instead of {seconds(full_ms[0])}"
    return [*found, Finding(OK, "relaying", f"{second.span_tokens} of {second.prompt_tokens} prompt tokens relayed: {saved}")]
