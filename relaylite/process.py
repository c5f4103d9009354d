"""Memory of this process, as the system counts it. 0 where the system does not say."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def resident_bytes() -> int:
    """Bytes of this process in memory now, mapped weights included."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return peak_resident_bytes()


def peak_resident_bytes() -> int:
    """The most there ever was of it."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def available_bytes() -> int:
    """Memory that could still be taken without swapping, and within the limit of this process's address space."""
    return min(_free_bytes(), _left_of_limit())


def _left_of_limit() -> int:
    """What `ulimit -v` leaves."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return sys.maxsize
        mapped = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError):
        return sys.maxsize
    return max(limit - mapped, 0)


def _free_bytes() -> int:
    try:
        sizes = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        return int(sizes["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return _physical_bytes() // 2


def _physical_bytes() -> int:
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names:
        return 8 * 2**30
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
