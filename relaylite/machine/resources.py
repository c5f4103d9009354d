"""Memory and processors of this process, as the system counts them. Bytes are 0 where the system does not say."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from relaylite.machine import cgroup


def resident_bytes() -> int:
    """Bytes of this process in memory now, mapped weights included."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return peak_resident_bytes()


def peak_resident_bytes() -> int:
    """The most bytes of this process that ever were in memory."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def available_bytes() -> int:
    """Memory that can still be taken without swapping, within the limits of this process's address space and control groups."""
    in_group = cgroup.memory_left()
    return min(_free_bytes(), address_space_left(), sys.maxsize if in_group is None else in_group)


def logical_cores() -> int:
    """Processors that this process may run on at once, at least 1. More threads would wait for each other."""
    share = cgroup.processors()
    return _allowed_cores() if share is None else max(1, min(_allowed_cores(), int(share)))


def physical_cores() -> int:
    """Cores that this process may run on at once, at least 1: processors without the second thread of a core."""
    try:
        has_siblings = Path("/sys/devices/system/cpu/smt/active").read_text(encoding="ascii").strip() == "1"
    except OSError:
        has_siblings = False
    return max(1, min(_allowed_cores() // 2 if has_siblings else _allowed_cores(), logical_cores()))


def _allowed_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def address_space_left() -> int:
    """Bytes that may still be mapped, files included: what is left of `ulimit -v`."""
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
