"""`RowFolder`: the disk tier. Files of rows in one folder, shared by models and processes, never beyond a budget.

The only door to that folder. A lock file decides who writes; readers need no lock, since files appear whole under their name and
are never changed. A file that cannot be used is a miss with one line in the log; rows that cannot be written are kept in memory only.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from relaylite import paths
from relaylite.store.ledger import Ledger
from relaylite.store.rowfile import SUFFIX, Corrupt, Newer, RowFile, RowWriter

DISK_BYTES = 4 * 2**30
LOCK_TIMEOUT_S = 10.0
TEMPORARY = ".part"
LEDGER = "ledger.json"

log = logging.getLogger("relaylite.store")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of rows in the folder, of any model. `used_s`: when rows of it were last handed out, in seconds of the epoch."""

    name: str
    n_bytes: int
    used_s: float


@dataclass(frozen=True, slots=True)
class FolderStats:
    """What the disk tier holds of all models, and what it was good for in all runs since it was cleared.

    Field names are those of `relaylite store --json`. `models`: how many fingerprints have rows in it; `spans`: how many files there are.
    """

    folder: str
    models: int
    spans: int
    tokens: int
    disk_bytes: int
    disk_budget_bytes: int
    hits: int
    hit_tokens: int
    seconds_saved: float


class CannotWrite(Exception):
    """Rows were not written; the message says why and is for the log."""


class RowFolder:
    """Files by name. Only methods that say so raise; a file that another process removed meanwhile is passed over."""

    def __init__(self, path: Path, budget_bytes: int) -> None:
        self.path = path
        self.budget_bytes = budget_bytes
        self._is_writable = budget_bytes > 0
        self._seen_ns = -1
        self._told: set[str] = set()

    def entries(self) -> list[Entry]:
        """All files of rows, those of other models and later versions too."""
        found = []
        for path in self.path.glob(f"*{SUFFIX}"):
            with suppress(OSError):  # another process removed it meanwhile
                status = path.stat()
                if not stat.S_ISDIR(status.st_mode):
                    found.append(Entry(path.name, status.st_size, status.st_mtime))
        return found

    def has_changed(self) -> bool:
        """Whether files came or went since the last call."""
        try:
            now_ns = self.path.stat().st_mtime_ns
        except OSError:
            now_ns = -1
        changed, self._seen_ns = now_ns != self._seen_ns, now_ns
        return changed

    def open(self, name: str) -> RowFile | None:
        """The file, None if it cannot be used. A damaged one is removed."""
        try:
            return RowFile(self.path / name)
        except Newer as newer:
            self._tell(f"{name} is left alone: a later version of relaylite wrote it ({newer})")
        except Corrupt as problem:
            self.discard(name, problem)
        except OSError:
            pass  # another process removed it
        return None

    def discard(self, name: str, problem: Exception) -> None:
        """Remove a file that cannot be used."""
        self._tell(f"{name} is removed, its rows are computed again: {problem}")
        self.remove(name)

    def remove(self, name: str) -> None:
        with suppress(OSError):
            (self.path / name).unlink()

    def touch(self, name: str) -> None:
        """Note for all processes that rows of the file were handed out."""
        with suppress(OSError):
            os.utime(self.path / name)

    def stats(self) -> FolderStats:
        entries, ledger = self.entries(), self.ledger()
        headers = [file.header for file in map(self.open, (entry.name for entry in entries)) if file is not None]
        return FolderStats(
            folder=str(self.path),
            models=len({header.fingerprint for header in headers}),
            spans=len(headers),
            tokens=sum(header.n for header in headers),
            disk_bytes=sum(entry.n_bytes for entry in entries),
            disk_budget_bytes=self.budget_bytes,
            hits=ledger.hits,
            hit_tokens=ledger.hit_tokens,
            seconds_saved=ledger.seconds_saved,
        )

    def verify(self) -> tuple[int, list[str]]:
        """Read every file whole. Returns how many are right, and the names of damaged ones, which are removed."""
        n_right, damaged = 0, []
        for entry in self.entries():
            try:
                RowFile(self.path / entry.name).check()
                n_right += 1
            except Corrupt as problem:
                self.discard(entry.name, problem)
                damaged.append(entry.name)
            except (Newer, OSError):
                continue
        return n_right, damaged

    def clear(self) -> int:
        """Remove all rows of all models, and the ledger. Returns the bytes of the rows removed. Raises CannotWrite."""
        if not self.path.exists():
            return 0
        with self._writing():
            entries = self.entries()
            for entry in entries:
                self.remove(entry.name)
            self.remove(LEDGER)
            return sum(entry.n_bytes for entry in entries)

    def ledger(self) -> Ledger:
        """The ledger of all processes; an empty one if it is missing or damaged."""
        try:
            return Ledger.from_json(paths.read_whole(self.path / LEDGER).decode())
        except (OSError, ValueError):
            return Ledger()

    def add_to_ledger(self, more: Ledger) -> None:
        """Enter what a store has seen since its last entry. Raises CannotWrite."""
        with self._writing(), paths.replacing(self.path / LEDGER) as written:
            written.write_text(self.ledger().plus(more).to_json(), encoding="utf-8")

    def write(
        self, name: str, writer: RowWriter, *, order: Callable[[list[Entry]], list[str]], keeps: Callable[[RowFile], bool]
    ) -> tuple[str, ...]:
        """Write a file. Others are removed first, in the order that `order` gives, until the budget has room. Returns the names removed.

        A file that has this name already stays if `keeps` says so. Raises CannotWrite; nothing was removed then, unless the disk failed.
        """
        with self._writing():
            old = self.open(name) if (self.path / name).exists() else None
            return () if old is not None and keeps(old) else self._write(name, writer, order)

    def _write(self, name: str, writer: RowWriter, order: Callable[[list[Entry]], list[str]]) -> tuple[str, ...]:
        others = {entry.name: entry for entry in self.entries() if entry.name != name}
        excess = sum(entry.n_bytes for entry in others.values()) + writer.n_bytes - self.budget_bytes
        victims = []
        for victim in order(list(others.values())) if excess > 0 else ():
            if excess <= 0:
                break
            victims.append(victim)
            excess -= others[victim].n_bytes
        if excess > 0:
            raise CannotWrite("what is there is worth more")
        for victim in victims:
            self.remove(victim)
        temporary = self.path / f"{name}{TEMPORARY}"
        try:
            writer.write(temporary)
            temporary.replace(self.path / name)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        paths.to_disk(self.path)  # a rename outlives a power cut only once the folder itself is on the disk
        return tuple(victims)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Alone among the writers of all processes. What a killed writer left is removed. Raises CannotWrite."""
        from filelock import FileLock, Timeout  # costs start-up time that runs without a disk tier need not pay

        if not self._is_writable:
            raise CannotWrite("the folder is not writable")
        try:
            if not self.path.exists():
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(self.path / "lock", timeout=LOCK_TIMEOUT_S, mode=0o600):
                for left in (*self.path.glob(f"*{TEMPORARY}"), *self.path.glob(f".{LEDGER}.*")):
                    left.unlink(missing_ok=True)
                yield
        except (OSError, Timeout) as error:
            self._is_writable = False
            reason = "another process holds its lock" if isinstance(error, Timeout) else error.strerror or error
            message = f"rows are kept in memory only from now on, {self.path} cannot be written: {reason}"
            self._tell(message)
            raise CannotWrite(message) from error

    def _tell(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            log.warning("row store: %s", message)
