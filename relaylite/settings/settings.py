"""Settings: what a run uses unless told otherwise, and where each value came from.

Precedence: flag > `RELAYLITE_*` variable > `./relaylite.toml` > the user's config.toml > the default below. `[store]` and `[tui]`
are tables of settings (variables `RELAYLITE_STORE_RAM`, …); `[relay]` replaces parameters of the model's
profile in every fidelity.
"""

# ruff: noqa: RUF009  (_setting makes dataclass fields)
from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from relaylite import paths
from relaylite.errors import UsageError, did_you_mean
from relaylite.reuse.kv_types import KV_TYPES
from relaylite.reuse.policies import FIDELITIES, Fidelity, parse_policy
from relaylite.sampling import MAX_SEED, Sampling
from relaylite.settings import readers
from relaylite.settings.toml_file import read_toml

VARIABLE_PREFIX = "RELAYLITE_"
STORE_CODECS = ("plain", "q8", "q8-q4", "q6-q4", "q4")
SAMPLING_FIELDS = tuple(each.name for each in dataclasses.fields(Sampling) if each.name != "logit_bias")  # ids are one model's

T = TypeVar("T")


def _policy(raw: object) -> str:
    name = readers.text(raw).lower()
    parse_policy(name)
    return name


def _max_tokens(raw: object) -> int:
    try:
        n: int = readers.integer(-1)(raw)
    except ValueError:
        n = 0
    if n == 0:
        raise ValueError("must be an integer of at least 1, or -1 for as many as fit")
    return n


def _setting(default: T, read: readers.Reader, about: str) -> T:
    """A field with its default, the reader of its values, and a sentence for help texts."""
    metadata = {"read": read, "about": about}
    if isinstance(default, dict):
        return cast(T, field(default_factory=lambda: dict(default), metadata=metadata))
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """`[store]`: budgets of the row store."""

    ram: int | None = _setting(None, readers.size, "Rows kept in memory, such as 512MiB; a quarter of the free memory if unset.")
    disk: int = _setting(4 * 2**30, readers.size, "Rows kept on disk, such as 4GiB; 0 keeps none.")
    folder: Path | None = _setting(None, readers.folder_or_file, "Where rows on disk lie; a folder in relaylite's cache if unset.")
    codec: str = _setting("plain", readers.choice(STORE_CODECS), "Codec of rows on disk: plain, or smaller with some loss, down to q4.")


@dataclass(frozen=True, slots=True)
class TuiSettings:
    """`[tui]`: the terminal app."""

    theme: str = _setting("", readers.text, "Name of a Textual theme; the app chooses if unset.")
    mouse: bool = _setting(True, readers.boolean, "Whether the app takes the mouse.")
    bell: bool = _setting(True, readers.boolean, "Whether the terminal's bell rings when a chain ends that took 20 s or more.")
    keys: Mapping[str, Any] = _setting({}, readers.table, 'Keys of actions, such as cancel = "ctrl+x".')


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. `sources` says for each name that was set (`store.ram` within a table) where: a flag, a variable or a file."""

    model: str = _setting("default", readers.text, "GGUF file, catalogue name, hf:owner/repo/file.gguf, or default (SmolLM2-135M).")
    agents: tuple[str, ...] = _setting(("plan", "code", "review"), readers.names, "Agents of the chain, in order.")
    agents_file: Path | None = _setting(None, readers.folder_or_file, "TOML file with more agents.")
    policy: str = _setting("relay", _policy, "What is taken over from upstream: full, prefix, naive or relay.")
    fidelity: Fidelity = _setting("balanced", readers.choice(FIDELITIES), "How much relay recomputes: fast, balanced or careful.")
    max_tokens: int = _setting(512, _max_tokens, "Tokens an agent may write; -1 writes until the context is full.")
    temperature: float | None = _setting(
        None,
        readers.number(0, 10),
        "Sampling temperature; 0 is greedy: always the likeliest token, nothing else. Each role's own if unset.",
    )
    top_k: int = _setting(40, readers.integer(0), "Sample among the k likeliest tokens; 0 among all.")
    top_p: float = _setting(0.95, readers.number(0, 1), "Sample among the likeliest tokens that make up this probability.")
    min_p: float = _setting(0.05, readers.number(0, 1), "Drop tokens below this share of the likeliest one's probability.")
    repeat_penalty: float = _setting(1.0, readers.number(0.01, 10), "Penalty on tokens that were just used; 1 is none.")
    frequency_penalty: float = _setting(0.0, readers.number(-2, 2), "Penalty on a token for each time it was just used; 0 is none.")
    presence_penalty: float = _setting(0.0, readers.number(-2, 2), "Penalty on a token that was just used, once; 0 is none.")
    penalty_last_n: int = _setting(64, readers.integer(-1), "Tokens that these three penalties look back; -1 is all.")
    dry_multiplier: float | None = _setting(
        None, readers.number(0, 100), "Strength of DRY, which keeps answers from repeating sequences; 0 is off. Each role's own if unset."
    )
    dry_base: float = _setting(1.75, readers.number(1, 100), "How fast DRY grows with the length of the sequence.")
    dry_allowed_length: int | None = _setting(
        None, readers.integer(0), "Tokens of a sequence that may be repeated before DRY sets in. Each role's own if unset."
    )
    dry_penalty_last_n: int | None = _setting(None, readers.integer(-1), "Tokens that DRY looks back; -1 is all. Each role's own if unset.")
    ends_loops: bool | None = _setting(None, readers.boolean, "Whether an answer that only repeats itself is ended. It is if unset.")
    seed: int = _setting(0, readers.integer(0, MAX_SEED), "Seed of the sampler.")
    stop: tuple[str, ...] = _setting((), readers.texts, "Texts that end an answer.")
    ctx: int | None = _setting(None, readers.integer(16), "Context size in tokens.")
    threads: int | None = _setting(None, readers.integer(1, 512), "CPU threads; one for each core if unset.")
    gpu_layers: int | None = _setting(None, readers.integer(-1), "Layers to put on the GPU or on workers; -1 is all.")
    rpc: tuple[str, ...] = _setting((), readers.addresses, "Workers that hold layers (relaylite worker), host:port with commas between.")
    lora: tuple[str, ...] = _setting((), readers.adapters, "LoRA adapters, FILE or FILE:SCALE with commas between.")
    chat_template: str = _setting("", readers.text, "chatml, or a Jinja file, in place of the model's own chat template.")
    trial: bool = _setting(True, readers.boolean, "Whether a model file that is new here is first opened in a process of its own.")
    kv_type: str = _setting("f16", readers.choice(tuple(KV_TYPES)), "Type of the rows in the cache.")
    keep: bool = _setting(True, readers.boolean, "Whether conversations on a terminal are kept without --session too.")
    settle_after_s: float = _setting(
        2.0, readers.number(0, 3600), "Idle seconds after which a conversation's messages are computed exactly in the background; 0 never."
    )
    store: StoreSettings = field(default_factory=StoreSettings)
    tui: TuiSettings = field(default_factory=TuiSettings)
    relay: Mapping[str, Any] = _setting({}, readers.table, "Parameters of repair, in place of those of the model's profile.")
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def for_model(self, model: str | None) -> Settings:
        """These settings with another model, if one is named."""
        return dataclasses.replace(self, model=model) if model else self

    def engine_options(self) -> dict[str, Any]:
        """How to open the model: arguments that `EngineOptions` and `Relay` share. One that is not set and has a default is left out."""
        options = {
            "n_ctx": self.ctx,
            "n_threads": self.threads,
            "n_gpu_layers": self.gpu_layers,
            "rpc": self.rpc,
            "lora": self.lora,
            "kv_type": self.kv_type,
            "chat_template": self.chat_template,
            "relay": self.relay,
            "trial": self.trial,
        }
        return {name: value for name, value in options.items() if value is not None}

    def relay_options(self) -> dict[str, Any]:
        """All arguments of `Relay` but the model."""
        return {
            **self.engine_options(),
            "policy": self.policy,
            "fidelity": self.fidelity,
            "sampling": self.sampling(),
            "store_bytes": self.store.ram,
            "store_folder": (self.store.folder or paths.store_folder()) if self.store.disk else None,
            "store_disk_bytes": self.store.disk,
            "store_codec": self.store.codec,
            "settle_after_s": self.settle_after_s or None,
        }

    def sampling(self) -> dict[str, Any]:
        """Sampling values that are set, by their names in `Sampling`; an agent's own values go before them."""
        plain = Sampling()
        values = {name: getattr(self, name) for name in SAMPLING_FIELDS}
        return {name: value for name, value in values.items() if value not in (None, getattr(plain, name)) or name in self.sources}

    def is_forced(self, name: str) -> bool:
        """Whether a flag or a variable set it, not a file."""
        return self.sources.get(name, "").startswith(("--", VARIABLE_PREFIX))

    def forced_sampling(self) -> dict[str, Any]:
        """Sampling values given by flag or variable; they go before an agent's own."""
        return {name: getattr(self, name) for name in SAMPLING_FIELDS if self.is_forced(name)}


def load_settings(flags: Mapping[str, object] | None = None) -> Settings:
    """The settings in force: `flags` (name → value, None for flags that were not given), then environment, then files.

    Raises UsageError in one line for a value that does not fit, an unknown key (with the closest known one) or an unreadable file.
    """
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for file in (paths.settings_file(), paths.project_settings_file()):
        for name, raw in _entries(file):
            found[name], sources[name] = _read(name, raw, str(file)), str(file)
    for name in _FIELDS:
        variable = VARIABLE_PREFIX + name.upper().replace(".", "_")
        if os.environ.get(variable) and not _takes_table(name):
            found[name], sources[name] = _read(name, os.environ[variable], variable), variable
    for name, raw in (flags or {}).items():
        if raw is not None:
            flag = "--" + name.replace("_", "-")
            found[name], sources[name] = _read(name, raw, flag), flag
    tables = {"store": StoreSettings, "tui": TuiSettings}
    nested = {
        table: kind(**{n.partition(".")[2]: v for n, v in found.items() if n.startswith(f"{table}.")}) for table, kind in tables.items()
    }
    plain = {name: value for name, value in found.items() if "." not in name}
    settings = Settings(**plain, **nested, sources=sources)
    if sources.get("fidelity", "").startswith("--"):
        _check_fidelity(settings)
    return settings


def describe() -> Iterator[tuple[str, str, object]]:
    """Name, sentence and default of every setting, for help texts."""
    for name, item in _FIELDS.items():
        default = item.default_factory() if item.default_factory is not dataclasses.MISSING else item.default
        yield name, item.metadata["about"], default


def shown(name: str, value: object) -> str:
    """The value of a setting as people write it in a file or a variable; `unset` where there is none."""
    if value in (None, "", (), {}):
        return "unset"
    if _FIELDS[name].metadata["read"] is readers.size and isinstance(value, int):
        return readers.size_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def unknown_variables() -> list[str]:
    """`RELAYLITE_*` variables that name no setting, for `doctor`."""
    known = {VARIABLE_PREFIX + name.upper().replace(".", "_") for name in _FIELDS if not _takes_table(name)} | {paths.HOME_VARIABLE}
    return sorted(name for name in os.environ if name.startswith(VARIABLE_PREFIX) and name not in known)


def _check_fidelity(settings: Settings) -> None:
    """Raise UsageError for a flag that would do nothing."""
    policy, _, named = settings.policy.partition(":")
    if not parse_policy(policy).repairs:
        raise UsageError(f"--fidelity {settings.fidelity} does nothing with the policy {policy}, which repairs no rows; leave it out")
    if named not in ("", settings.fidelity):
        raise UsageError(f"--fidelity {settings.fidelity} and the policy {settings.policy} name two fidelities; leave one out")


def _fields_of(kind: type, prefix: str = "") -> dict[str, dataclasses.Field[Any]]:
    return {prefix + item.name: item for item in dataclasses.fields(kind) if "read" in item.metadata}


_FIELDS = _fields_of(Settings) | _fields_of(StoreSettings, "store.") | _fields_of(TuiSettings, "tui.")


def _takes_table(name: str) -> bool:
    return _FIELDS[name].metadata["read"] is readers.table


def _entries(file: Path) -> Iterator[tuple[str, object]]:
    """Names and raw values of a settings file, tables of settings flattened; nothing if there is no such file."""
    for name, raw in read_toml(file, may_be_missing=True).items():
        if name in ("store", "tui") and isinstance(raw, dict):
            yield from ((f"{name}.{key}", value) for key, value in raw.items())
        else:
            yield name, raw


def _read(name: str, raw: object, source: str) -> Any:
    if name not in _FIELDS:
        raise UsageError(f"{source}: unknown setting {name!r}; {did_you_mean(name, _FIELDS, '`relaylite config` lists the known ones')}")
    label = source if source.startswith(("--", VARIABLE_PREFIX)) else f"{source}: {name}"
    try:
        return _FIELDS[name].metadata["read"](raw)
    except ValueError as error:
        raise UsageError(f"{label} {error}, not {raw!r}") from error
    except UsageError as error:
        raise UsageError(f"{label}: {error}") from error
