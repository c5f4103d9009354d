"""Limits of containers: read from both versions of Linux's control groups, and kept to."""

from __future__ import annotations

from pathlib import Path

import pytest

from relaylite.machine import cgroup, resources


def system(root: Path, groups: str, **files: str) -> Path:
    """A system whose process is in these groups; files by their place below sys/fs/cgroup, `__` for a slash."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        place = root / "sys/fs/cgroup" / name.replace("__", "/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return root


V2 = "0::/user.slice/app\n"
V1 = "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/docker/abc\n"


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        (V2, {"user.slice__app__cpu.max": "150000 100000\n"}, 1.5),
        (V2, {"user.slice__app__cpu.max": "max 100000\n"}, None),
        (V2, {"user.slice__app__cpu.max": "max 100000\n", "user.slice__cpu.max": "50000 100000\n"}, 0.5),
        ("0::/\n", {"cpu.max": "400000 100000\n"}, 4.0),
        (V1, {"cpu,cpuacct__docker__abc__cpu.cfs_quota_us": "200000\n", "cpu,cpuacct__docker__abc__cpu.cfs_period_us": "100000\n"}, 2.0),
        (V1, {"cpu,cpuacct__cpu.cfs_quota_us": "300000\n", "cpu,cpuacct__cpu.cfs_period_us": "100000\n"}, 3.0),
        (V1, {"cpu,cpuacct__cpu.cfs_quota_us": "-1\n", "cpu,cpuacct__cpu.cfs_period_us": "100000\n"}, None),
        ("", {}, None),
    ],
)
def test_processors_are_those_of_the_tightest_group(groups: str, files: dict[str, str], expected: float | None, tmp_path: Path) -> None:
    assert cgroup.processors(system(tmp_path, groups, **files)) == expected


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        (V2, {"user.slice__app__memory.max": "1000\n", "user.slice__app__memory.current": "300\n"}, 700),
        (V2, {"user.slice__app__memory.max": "max\n", "user.slice__app__memory.current": "300\n"}, None),
        (
            V2,
            {
                "user.slice__app__memory.max": "1000\n", "user.slice__app__memory.current": "900\n",
                "user.slice__app__memory.stat": "anon 500\ninactive_file 250\n",
                "user.slice__memory.max": "5000\n", "user.slice__memory.current": "4800\n",
            },
            200,
        ),
        (V1, {"memory__memory.limit_in_bytes": "1000\n", "memory__memory.usage_in_bytes": "2000\n"}, 0),
        (
            V1,
            {
                "memory__docker__abc__memory.limit_in_bytes": "1000\n", "memory__docker__abc__memory.usage_in_bytes": "900\n",
                "memory__docker__abc__memory.stat": "inactive_file 10\ntotal_inactive_file 300\n",
            },
            400,
        ),
        ("", {}, None),
    ],
)  # fmt: skip
def test_memory_is_what_the_tightest_group_leaves(groups: str, files: dict[str, str], expected: int | None, tmp_path: Path) -> None:
    assert cgroup.memory_left(system(tmp_path, groups, **files)) == expected


@pytest.mark.parametrize(("share", "expected"), [(None, 8), (0.5, 1), (1.0, 1), (2.9, 2), (64.0, 8)])
def test_as_many_threads_as_the_group_pays_for(share: float | None, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_allowed_cores", lambda: 8)
    monkeypatch.setattr(cgroup, "processors", lambda: share)
    assert resources.logical_cores() == expected
    assert resources.physical_cores() in (expected, min(expected, 4))  # 4 where cores have two threads


def test_memory_of_the_group_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    free = resources.available_bytes()
    monkeypatch.setattr(cgroup, "memory_left", lambda: 12345)
    assert resources.available_bytes() == 12345 < free
