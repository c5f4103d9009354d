"""Model files in the Hugging Face cache: where one lies, and taking one out. Touches neither the network nor huggingface_hub.

A repository's folder has the contents as `blobs/ETAG`, and `snapshots/COMMIT/FILE` as links to them; `refs/REVISION` names a commit. One
content may have several names, and be of several revisions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from relaylite import paths
from relaylite.errors import ModelError
from relaylite.gguf.download.remote import Remote

_COMMIT = re.compile("[0-9a-f]{40}")


def folder_of(remote: Remote) -> Path:
    """What the cache has of the file's repository."""
    return paths.hub_cache_folder() / f"models--{remote.repo.replace('/', '--')}"


def cached(remote: Remote) -> Path | None:
    """Where the model lies in the cache, if all its parts do."""
    found = [cached_file(part) for part in remote.parts()]
    return found[0] if all(found) else None


def cached_file(remote: Remote) -> Path | None:
    """Where this one file lies in the cache; None also if nobody can look there."""
    with suppress(OSError):  # a path that is too long, or in a folder that cannot be searched
        place = _place(remote)
        return place if place is not None and place.is_file() else None
    return None


def partial_of(remote: Remote, blob: Path) -> Path:
    """Where the file grows that will be `blob`. The name says which file it is, so that removing another one leaves it alone."""
    return blob.with_name(f"{blob.name}.{_mark(remote)}.part")


@contextmanager
def growing(remote: Remote, etag: str) -> Iterator[Path]:
    """The blob of that name, which no other process fetches meanwhile. Raises ModelError if one does."""
    from filelock import FileLock, Timeout

    blob = paths.ensure(folder_of(remote) / "blobs") / etag
    lock = FileLock(f"{blob}.part.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ModelError(f"another process is fetching {remote.file}; wait for it or stop it, and try again") from error
    try:
        yield blob
    finally:
        lock.release()


def remove(remote: Remote) -> int | None:
    """Take this revision of the model out of the cache, with what an interrupted download of it left. None if nothing of it is there.

    Returns the bytes freed: 0 if another name or revision needs the content. Raises ModelError if another process is fetching it.
    """
    freed = [n for part in remote.parts() for n in (*_drop_partials(part), *_drop_file(part))]
    return sum(freed) if freed else None


def _drop_partials(remote: Remote) -> Iterator[int]:
    for partial in sorted((folder_of(remote) / "blobs").glob(f"*.{_mark(remote)}.part")):
        with growing(remote, partial.name.split(".")[0]):
            yield _unlink(partial)


def _drop_file(remote: Remote) -> Iterator[int]:
    """Its name, and the content if no other name leads to that."""
    place = _place(remote)
    if place is None or not (place.is_file() or place.is_symlink()):
        return
    blob = place.resolve()
    yield 0 if place.is_symlink() else _unlink(place)
    place.unlink(missing_ok=True)
    others = (other for other in folder_of(remote).glob("snapshots/**/*") if other.is_symlink())
    if not any(other.resolve() == blob for other in others):
        yield _unlink(blob)


def _unlink(file: Path) -> int:
    """The bytes that were freed."""
    n_bytes = file.stat().st_size if file.exists() else 0
    file.unlink(missing_ok=True)
    return n_bytes


def _place(remote: Remote) -> Path | None:
    """Where the file's name is, if its revision was ever fetched."""
    commit = remote.revision
    if not _COMMIT.fullmatch(commit):
        try:
            commit = (folder_of(remote) / "refs" / commit).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None
    return folder_of(remote) / "snapshots" / commit / remote.file if _COMMIT.fullmatch(commit) else None


def _mark(remote: Remote) -> str:
    return hashlib.blake2b(remote.file.encode(), digest_size=6).hexdigest()
