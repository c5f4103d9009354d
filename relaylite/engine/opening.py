"""Opening an engine: from a file and options to the parts that an `Engine` works with, in steps."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from relaylite.engine import footprint, llama, native, self_check
from relaylite.engine.cache import Cache
from relaylite.engine.held import Held
from relaylite.engine.interface import ModelInfo
from relaylite.engine.kept_states import KeptStates
from relaylite.engine.live_sequence import LiveSequence
from relaylite.engine.options import MAX_THREADS, EngineOptions, OnProgress
from relaylite.engine.trial import trial
from relaylite.errors import ModelError
from relaylite.gguf import fingerprint
from relaylite.gguf.adapters import Adapter, read_adapters
from relaylite.machine import installation, workers
from relaylite.machine.resources import logical_cores, physical_cores
from relaylite.prompt.template import ChatTemplate, read_template
from relaylite.reuse.profile import Profile, load_profile
from relaylite.reuse.rows import RowLayout

MAX_BATCH = 512
CONTEXT_STEP = 256  # llama.cpp rounds a context up to a multiple of it, and ends the process where there is room for one output


@dataclass(frozen=True, slots=True)
class Computing:
    """What llama.cpp and our extension compute with. `cache` is None where rows cannot be placed; `refusal` says in one line why spans
    cannot be relayed, None if they can."""

    stop: native.Stop
    model: llama.Model
    n_offloaded: int
    capture: native.Capture
    context: llama.Context
    context_options: llama.ContextOptions
    cache: Cache | None
    refusal: str | None


@dataclass(frozen=True, slots=True)
class Parts:
    """What an open engine works with. `held` frees all of it."""

    held: Held
    options: EngineOptions
    computing: Computing
    template: ChatTemplate
    profile: Profile
    layout: RowLayout
    sequence: LiveSequence
    kept_states: KeptStates | None
    info: ModelInfo


def open_parts(path: Path, options: EngineOptions) -> Parts:
    """Load the GGUF at `path`. Raises ModelError or UsageError in one line, or what `on_progress` raised; nothing is held then."""
    options.check()
    native.check_build()
    llama.start()
    held = Held()
    progress = _Progress(options.on_progress)
    try:
        return _open(path, options, held, progress)
    except OSError as error:
        held.close()
        if error is progress.raised:
            raise
        raise ModelError(f"cannot read {path}: {error.strerror}; it was there a moment ago") from error
    except BaseException:
        held.close()
        raise


def open_beside(parts: Parts) -> Parts:
    """Another context on the same weights, with a live sequence of its own. Raises ModelError if there is no memory for it.

    It must be closed before the model is. What the self-check found for the first context holds for this one.
    """
    held = Held()
    try:
        first, options = parts.computing, parts.options
        computing = _make_context(first.model, options, held, held.keep(native.Stop()), first)
        sequence = _sequence(computing, parts.profile, options)
        kept_states = parts.kept_states
        if kept_states is not None:
            kept_states = KeptStates(first.model, computing.context, sequence, parts.layout, options.kept_state_bytes)
        return replace(parts, held=held, computing=computing, sequence=sequence, kept_states=kept_states)
    except BaseException:
        held.close()
        raise


class _Progress:
    """The caller's reader of progress, if there is one, and what it raised."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self.raised: BaseException | None = None

    def __call__(self, fraction: float) -> None:
        try:
            if self._on_progress is not None:
                self._on_progress(fraction)
        except BaseException as error:
            self.raised = error
            raise

    def checking(self) -> None:
        """The model is loaded and what follows takes a while too."""
        self(1.0)


def _open(path: Path, options: EngineOptions, held: Held, progress: _Progress) -> Parts:
    adapters = read_adapters(options.lora, path)
    footprint.check_load(path)
    trial.hold(path, adapters, options, progress)
    stop = held.keep(native.Stop())
    model = _load_model(path, options, held, progress)
    for adapter in adapters:
        model.apply(adapter.path, adapter.scale)
    progress.checking()
    computing = _make_context(model, options, held, stop)
    progress.checking()
    template = read_template(options.chat_template, model.chat_template or "")
    weights = fingerprint.of_file(path, progress.checking)
    profile = load_profile(weights, model.n_layer).overridden(options.relay)
    profile.check_fits(model.n_layer)
    layout = _layout(computing, options.kv_type, [weights, *_contents(adapters, progress)])
    sequence = _sequence(computing, profile, options)
    kept_states = None
    if computing.cache is None:
        kept_states = KeptStates(model, computing.context, sequence, layout, options.kept_state_bytes)
    info = _info(computing, layout)
    return Parts(
        held=held,
        options=options,
        computing=computing,
        template=ChatTemplate(template, bos_text=model.vocab.bos_text, eos_text=model.vocab.eos_text),
        profile=profile,
        layout=layout,
        sequence=sequence,
        kept_states=kept_states,
        info=replace(
            info,
            adapters=tuple(map(str, adapters)),
            prefix_reuse=info.prefix_reuse if kept_states is None else kept_states.reach,
            warnings=_warnings(model, info.n_ctx, options),
        ),
    )


def _load_model(path: Path, options: EngineOptions, held: Held, on_progress: OnProgress) -> llama.Model:
    devices = _worker_devices(options.rpc, held, on_progress)
    use_extra_buffers = native.extra_buffers_work()

    def load(go_on: Callable[[float], bool]) -> llama.Model:
        return llama.Model(path, n_gpu_layers=options.n_offloaded, use_extra_buffers=use_extra_buffers, devices=devices, go_on=go_on)

    model = held.keep(llama.Load(load).result(on_progress))
    if model.has_encoder:
        raise ModelError(f"{path} is an encoder–decoder model; relaylite runs decoder-only chat models")
    return model


def _worker_devices(addresses: Sequence[str], held: Held, on_progress: OnProgress) -> Sequence[int]:
    """Devices that layers may go to, none without workers. One that does not answer takes some seconds, in which opening can be stopped."""
    if not addresses:
        return ()
    return held.keep(llama.Load(lambda go_on: workers.Workers(addresses)).result(on_progress)).devices


def _n_threads(options: EngineOptions) -> int:
    return options.n_threads or min(physical_cores(), MAX_THREADS)


def _make_context(model: llama.Model, options: EngineOptions, held: Held, stop: native.Stop, checked: Computing | None = None) -> Computing:
    """A context and its rows. `checked`: another one of the same model and options, which says whether spans can be relayed."""
    n_ctx = math.ceil(options.n_ctx / CONTEXT_STEP) * CONTEXT_STEP
    capture = held.keep(native.Capture(n_ctx))
    context_options = llama.ContextOptions(
        n_ctx,
        MAX_BATCH,
        _n_threads(options),
        options.kv_type,
        options.kv_type,
        eval_callback=(native.Capture.callback, capture.address),
        abort_callback=(native.Stop.callback, stop.address),
    )
    if options.n_offloaded == 0:
        footprint.check_context(model, context_options)
    context = held.keep(llama.Context(model, context_options))
    if checked is None:
        cache, refusal = _open_cache(context, options, held, stop)
    else:
        cache = None if checked.cache is None else held.keep(Cache(context.address, _n_threads(options), stop))
        refusal = checked.refusal
    return Computing(stop, model, options.n_offloaded, capture, context, context_options, cache, refusal)


def _open_cache(context: llama.Context, options: EngineOptions, held: Held, stop: native.Stop) -> tuple[Cache | None, str | None]:
    """The rows of the context, and why spans cannot be relayed (None if they can)."""
    try:
        cache = held.keep(Cache(context.address, _n_threads(options), stop))
    except native.Unsupported as error:
        return None, str(error)
    return cache, cache.refusal or self_check.run(cache, context) or None


def _contents(adapters: Sequence[Adapter], progress: _Progress) -> list[str]:
    """What tells apart rows computed with these adapters, in whatever order they were given: the content of the files, and the scales."""
    return sorted(f"{fingerprint.of_file(adapter.path, progress.checking)}:{adapter.scale!r}" for adapter in adapters)


def _layout(computing: Computing, kv_type: str, weights: Sequence[str]) -> RowLayout:
    """Some RoPE factors depend on whether the context is longer than the original one; an environment variable keeps llama.cpp from mixing
    quantized rows by a Hadamard matrix."""
    model, cache = computing.model, computing.cache
    original = model.arch_meta("rope.scaling.original_context_length") or str(model.n_ctx_train)
    is_long = original.isdigit() and computing.context.n_ctx > int(original)
    unmixed = os.environ.get("LLAMA_ATTN_ROT_DISABLE", "")
    name = fingerprint.combined(*weights, kv_type, kv_type, installation.LLAMA_CPP_PYTHON, is_long, unmixed)
    return RowLayout((), (), name) if cache is None else RowLayout(cache.k_bytes, cache.v_bytes, name)


def _sequence(computing: Computing, profile: Profile, options: EngineOptions) -> LiveSequence:
    """On the CPU the threads of a sweep wait for the one that lost its core, so rows are loaded by the cores that compute nothing."""
    is_offloaded = not 0 <= options.n_offloaded < computing.model.n_layer
    n_loaders = max(0, logical_cores() - (0 if is_offloaded else _n_threads(options)))
    sequence = LiveSequence(computing.context, computing.cache, computing.capture, computing.stop, n_loaders=n_loaders)
    sequence.watch({} if computing.refusal else profile.captures)
    return sequence


def _info(computing: Computing, layout: RowLayout) -> ModelInfo:
    model, context = computing.model, computing.context
    return ModelInfo(
        name=model.path.stem,
        path=str(model.path),
        architecture=model.meta("general.architecture") or "?",
        n_layer=model.n_layer,
        n_ctx=context.n_ctx,
        n_ctx_train=model.n_ctx_train,
        n_params=model.n_params,
        relay_refusal=computing.refusal,
        n_embd=model.n_embd,
        n_head=model.n_head,
        n_head_kv=model.n_head_kv,
        n_vocab=model.vocab.n_tokens,
        file_bytes=model.path.stat().st_size,
        kv_bytes_per_token=layout.token_bytes or footprint.bytes_per_token(model, computing.context_options),
        quantization=model.quantization,
    )


def _warnings(model: llama.Model, n_ctx: int, options: EngineOptions) -> tuple[str, ...]:
    found = [workers.WARNING] if options.rpc else []
    if n_ctx != options.n_ctx:
        found.append(f"the context has {n_ctx} tokens: llama.cpp rounds {options.n_ctx} up to a multiple of {CONTEXT_STEP}")
    if n_ctx > model.n_ctx_train > 0:
        found.append(f"the context of {n_ctx} tokens is longer than the {model.n_ctx_train} that the model was trained for")
    return tuple(found)
