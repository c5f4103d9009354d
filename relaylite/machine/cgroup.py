"""What the control groups of this process (a container, a systemd unit) allow it: processor time and memory.

Linux has two versions of control groups, and both are read. A limit may stand in any group above one's own. `root` is the folder that the
system's files are in.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")


def processors(root: Path = ROOT) -> float | None:
    """Processors' worth of time in each period, None without a limit."""
    limits = [_quota(folder) for controller in ("", "cpu") for folder in _groups(root, controller)]
    return min((limit for limit in limits if limit is not None), default=None)


def memory_left(root: Path = ROOT) -> int | None:
    """Bytes that may still be taken, None without a limit. Cached files count as free, because the system gives them up by itself."""
    left = [_left(folder) for controller in ("", "memory") for folder in _groups(root, controller)]
    return min((n for n in left if n is not None), default=None)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of this process's group and of those above it. Controller "" is version 2. In a container its own may be the topmost."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / controllers
        group = top / path.strip("/")
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(top) and folder.is_dir())


def _quota(folder: Path) -> float | None:
    quota, _, period = _text(folder / "cpu.max").strip().partition(" ")
    if not quota:
        quota, period = (_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _left(folder: Path) -> int | None:
    for limit_name, used_name in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        limit, used = (_text(folder / name).strip() for name in (limit_name, used_name))
        if limit.isdigit() and used.isdigit():
            return max(int(limit) - int(used) + _cached(folder), 0)
    return None


def _cached(folder: Path) -> int:
    numbers = dict(line.split(" ", 1) for line in _text(folder / "memory.stat").splitlines() if " " in line)
    return int(numbers.get("total_inactive_file", numbers.get("inactive_file", "0")))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
