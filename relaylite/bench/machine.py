"""Where and with what something was measured: processor, system, versions, model, command. No names of users, hosts or folders."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from relaylite.engine.engine import Engine


def machine() -> dict[str, Any]:
    """Processor, number of cores that may be used, memory in GB, system."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    return {"cpu": _cpu(), "cores": cores, "memory_gb": round(memory / 1e9, 1), "system": f"{platform.system()} {platform.machine()}"}


def versions() -> dict[str, str]:
    """Package → its version."""
    names = ("relaylite", "llama-cpp-python", "numpy")
    return {"python": platform.python_version(), **{name: _version(name) for name in names}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"  # run from a source tree


def model(engine: Engine) -> dict[str, Any]:
    """The open model, and whether its profile was measured."""
    info = engine.info
    return {
        "name": info.name,
        "file": Path(info.path).name,
        "architecture": info.architecture,
        "quantization": info.quantization,
        "n_layer": info.n_layer,
        "n_ctx": info.n_ctx,
        "fingerprint": engine.profile.fingerprint,
        "is_profiled": engine.profile.is_measured,
    }


def command() -> str:
    """How this process was started, with files by their names alone."""
    return " ".join(["relaylite", *(Path(argument).name if os.sep in argument else argument for argument in sys.argv[1:])])


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
