"""`relaylite info`: what a model is, what it needs, and whether relaying works with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from relaylite.cli import options
from relaylite.cli.command import Command
from relaylite.cli.document import Document
from relaylite.cli.opening import open_relay
from relaylite.cli.terminal import Output
from relaylite.settings.settings import Settings

if TYPE_CHECKING:
    from relaylite.engine.interface import Memory, ModelInfo


@click.command("info", cls=Command, examples=("relaylite info", "relaylite info qwen3-4b --ctx 16384", "relaylite info model.gguf --json"))
@click.argument("named", metavar="[MODEL]", required=False)
@options.setting_options(*options.MODEL)
@options.json_option
@options.talk_options
def command(named: str | None, settings: Settings, document: Document, quiet: bool, verbose: bool) -> None:
    """Open MODEL and say what it is, what it needs, and whether it can relay.

    Opening runs the self-check: it computes one range of layers apart and compares that with llama.cpp's decoder. If they differ, or if
    the model lacks what relaying needs, relaying is off for this model; then the reason is shown.
    """
    output = Output(quiet=quiet)
    with open_relay(settings.for_model(named), output, verbose=verbose) as relay:
        info, memory = relay.info, relay.memory()
        sizes = sorted({info.n_ctx, info.n_ctx_train or info.n_ctx})
        forecasts = {n_ctx: relay.forecast(n_ctx) for n_ctx in sizes}
    document.value = {
        **asdict(info),
        "can_relay": info.relay_refusal is None,
        "memory": asdict(memory),
        "forecasts": [{"n_ctx": n_ctx, **asdict(forecast)} for n_ctx, forecast in forecasts.items()],
    }
    if document.is_wanted:
        return
    for name, value in _rows(info, memory, forecasts):
        output.line(f"{name:<14}{value}")


def _rows(info: ModelInfo, memory: Memory, forecasts: Mapping[int, Memory]) -> list[tuple[str, str]]:
    context = f"{info.n_ctx} tokens open, trained for {info.n_ctx_train}"
    per_token = f"{info.kv_bytes_per_token / 1024:.1f} KiB a token"
    states = memory.kv_bytes - info.n_ctx * info.kv_bytes_per_token
    per_token += f" and {_mb(states)} of states" if states else ""
    return [
        ("model", info.name),
        ("file", info.path),
        ("architecture", f"{info.architecture}, {info.n_params / 1e6:.0f} M parameters, {info.quantization}"),
        *(("adapter", adapter) for adapter in info.adapters),
        ("size", f"{_mb(info.file_bytes)} on disk"),
        ("layers", str(info.n_layer)),
        ("heads", f"{info.n_head}, {info.n_head_kv} of K and V; width {info.n_embd}"),
        ("vocabulary", f"{info.n_vocab} tokens"),
        ("context", context),
        ("KV cache", f"{per_token}, {_mb(memory.kv_bytes)} for the context"),
        ("memory", f"{_parts(memory)}; {_mb(memory.resident_bytes)} resident now"),
        *(("predicted", f"{_mb(_total(needs))} for --ctx {n_ctx}: {_parts(needs)}") for n_ctx, needs in forecasts.items()),
        ("relaying", "works (self-check passed)" if info.relay_refusal is None else f"off: {info.relay_refusal}"),
        *([("prefix reuse", f"exact, from {info.prefix_reuse}")] if info.relay_refusal is not None else []),
        *(("warning", warning) for warning in info.warnings),
    ]


def _parts(memory: Memory) -> str:
    parts = {"weights": memory.model_bytes, "KV cache": memory.kv_bytes, "compute": memory.compute_bytes, "captures": memory.capture_bytes}
    return ", ".join(f"{_mb(n)} {name}" for name, n in parts.items() if n)


def _total(memory: Memory) -> int:
    return memory.model_bytes + memory.kv_bytes + memory.compute_bytes + memory.capture_bytes


def _mb(n: int) -> str:
    return f"{n / 1e6:.1f} MB"
