"""`relaylite info`: what a model is, what it needs, and whether relaying works with it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from relaylite.cli import options
from relaylite.cli.opening import open_relay
from relaylite.cli.terminal import Output
from relaylite.config import Settings

if TYPE_CHECKING:
    from relaylite.seam import Memory, ModelInfo


@click.command("info")
@click.argument("model", required=False)
@options.setting_options("ctx", "threads", "gpu_layers", "chat_template")
@options.json_option
@options.talk_options
def command(model: str | None, settings: Settings, as_json: bool, quiet: bool, verbose: bool) -> None:
    """Open MODEL and say what it is, what it needs, and whether it can relay.

    Opening compares one slice of the model's own graph with llama.cpp's decoder (the self-check); where they differ, or something
    that relaying needs is missing, relaying is off for that model and the reason stands here.
    """
    output = Output(quiet=quiet)
    with open_relay(settings.for_model(model), output, verbose=verbose) as relay:
        info, memory = relay.info, relay.memory()
    if as_json:
        click.echo(
            json.dumps({**asdict(info), "can_relay": info.relay_refusal is None, "memory": asdict(memory)}, ensure_ascii=False, indent=2)
        )
        return
    for name, value in _rows(info, memory):
        output.line(f"{name:<14}{value}")


def _rows(info: ModelInfo, memory: Memory) -> list[tuple[str, str]]:
    context = f"{info.n_ctx} tokens open, trained for {info.n_ctx_train}"
    per_token = f"{info.kv_bytes_per_token / 1024:.1f} KiB a token"
    return [
        ("model", info.name),
        ("file", info.path),
        ("architecture", f"{info.architecture}, {info.n_params / 1e6:.0f} M parameters, {info.quantization}"),
        ("size", f"{_mb(info.file_bytes)} on disk"),
        ("layers", str(info.n_layer)),
        ("heads", f"{info.n_head}, {info.n_head_kv} of K and V; width {info.n_embd}"),
        ("vocabulary", f"{info.n_vocab} tokens"),
        ("context", context),
        ("KV cache", f"{per_token}, {_mb(memory.kv_bytes)} for the context"),
        ("memory", f"{_mb(memory.model_bytes)} weights, {_mb(memory.resident_bytes)} resident"),
        ("relaying", "works (self-check passed)" if info.relay_refusal is None else f"off: {info.relay_refusal}"),
        *(("warning", warning) for warning in info.warnings),
    ]


def _mb(n: int) -> str:
    return f"{n / 1e6:.1f} MB"
