"""`fetch`: a model file from the hub into the cache.

huggingface_hub deletes what an interrupted download had fetched. So a file grows here under a name of its own beside the cache's
blobs, its SHA-256 is checked, and only then huggingface_hub takes it over; the cache never holds an unchecked file of ours.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from relaylite import paths
from relaylite.errors import ModelError
from relaylite.gguf.digest import hex_digest
from relaylite.gguf.download.cache import cached_file, growing, partial_of
from relaylite.gguf.download.failures import check_asking, explain, network_errors, reason
from relaylite.gguf.download.remote import Remote, endpoint
from relaylite.gguf.header import DamagedFile, read_header

if TYPE_CHECKING:
    from huggingface_hub import HfFileMetadata

# File name, bytes done, bytes in all. Called in the fetching thread, and with all bytes done while they are checked. What it raises ends
# the download, which goes on from there the next time.
Progress = Callable[[str, int, int], None]

ASK_TIMEOUT_S = 4.0
_SHA256 = re.compile("[0-9a-f]{64}")


def trouble() -> str:
    """Why the hub does not answer now, in some words; "" if it does. Asks for nothing but its head, and waits some seconds at most.

    Raises what `check_asking` raises.
    """
    check_asking()
    from huggingface_hub import get_session

    try:
        get_session().head(endpoint(), timeout=ASK_TIMEOUT_S)
    except network_errors() as error:
        return reason(error)
    return ""


def fetch(remote: Remote, progress: Progress | None = None) -> Path:
    """The model's path in the cache, after fetching what is missing or damaged; what else lies there is used without asking the hub.

    Raises ModelError in one line: offline, no such file, access refused, no space, another checksum than expected.
    """
    found = [_fetch_part(part, progress or (lambda *_: None)) for part in remote.parts()]
    return found[0]


def _fetch_part(remote: Remote, progress: Progress) -> Path:
    found = cached_file(remote)
    if found is None:
        return _fetch_file(remote, progress)
    try:
        read_header(found)
    except DamagedFile as damaged:
        try:
            return _fetch_file(remote, progress)
        except ModelError as error:
            raise ModelError(f"{damaged}: {error}") from error
    return found


def _fetch_file(remote: Remote, progress: Progress) -> Path:
    check_asking()
    from huggingface_hub import hf_hub_download

    try:
        metadata = _metadata(remote)
        with growing(remote, str(metadata.etag)) as blob:
            if not _is_whole(remote, metadata, blob, progress):
                _grow(remote, metadata, blob, progress)
        cache = paths.hub_cache_folder()
        return Path(hf_hub_download(remote.repo, remote.file, revision=remote.revision, cache_dir=cache, endpoint=endpoint()))
    except network_errors() as error:
        explain(remote, error)


def _metadata(remote: Remote) -> HfFileMetadata:
    """What the hub says of the file, after comparing it with what is expected and with the free space."""
    from huggingface_hub import get_hf_file_metadata

    metadata = get_hf_file_metadata(remote.url, endpoint=endpoint())
    if not metadata.etag or "/" in metadata.etag or not metadata.commit_hash or not metadata.size:
        raise ModelError(f"{endpoint()} answers, but not as a model hub does; check HF_ENDPOINT")
    if remote.sha256 and _SHA256.fullmatch(metadata.etag) and metadata.etag != remote.sha256:
        raise ModelError(
            f"{remote.file} on the hub has the SHA-256 {metadata.etag}, the catalogue says {remote.sha256}; "
            f"use hf:{remote.repo}/{remote.file} if the change is meant"
        )
    return metadata


def _is_whole(remote: Remote, metadata: HfFileMetadata, blob: Path, progress: Progress) -> bool:
    """Whether the content is there already and is what the hub says."""
    size = metadata.size or 0
    if not blob.is_file() or blob.stat().st_size != size:
        return False
    expected = _expected(remote, metadata)
    return expected is None or hex_digest(blob, hashlib.sha256(), lambda: progress(remote.file, size, size)) == expected


def _expected(remote: Remote, metadata: HfFileMetadata) -> str | None:
    """The SHA-256 that the file must have, where it is known."""
    return remote.sha256 or (metadata.etag if _SHA256.fullmatch(metadata.etag or "") else None)


def _grow(remote: Remote, metadata: HfFileMetadata, blob: Path, progress: Progress) -> None:
    """Fetch what is missing of `blob`, check it, and give it its name."""
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    partial, size = partial_of(remote, blob), metadata.size or 0
    done = partial.stat().st_size if partial.exists() else 0
    free = shutil.disk_usage(blob.parent).free
    if size - done > free:
        raise ModelError(
            f"{remote.file} needs {(size - done) / 1e9:.1f} GB more, {blob.parent} has {free / 1e9:.1f} GB; free some, or set HF_HUB_CACHE"
        )
    if done > size:
        partial.unlink()
        done = 0
    with partial.open("ab") as file:
        http_get(
            remote.url,
            file,
            resume_size=done,
            headers=build_hf_headers(),
            expected_size=size,
            displayed_filename=remote.file,
            tqdm_class=_meter(remote.file, progress),
        )
    expected = _expected(remote, metadata)
    found = hex_digest(partial, hashlib.sha256(), lambda: progress(remote.file, size, size)) if expected else None
    if found != expected:
        partial.unlink()
        raise ModelError(f"{remote.file} arrived damaged: SHA-256 {found} instead of {expected}; it was removed, fetch it again")
    partial.replace(blob)


def _meter(label: str, progress: Progress) -> Any:
    """A class with the part of tqdm's interface that http_get uses, handing on to `progress`."""

    class Meter:
        def __init__(self, *, total: int | None = None, initial: int = 0, **_: object) -> None:
            self.done, self.total = initial, total or 0
            progress(label, self.done, self.total)

        def update(self, n: float = 1) -> None:
            self.done += int(n)
            progress(label, self.done, self.total)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    return Meter
