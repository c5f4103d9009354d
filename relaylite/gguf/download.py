"""The only door to the network: model files from the Hugging Face hub into its own cache, resumed, checked, shared with other tools.

huggingface_hub deletes what an interrupted download had fetched. So a file grows here under a name of its own beside the cache's
blobs, its SHA-256 is checked, and only then huggingface_hub takes it over; the cache never holds an unchecked file of ours.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from relaylite import paths
from relaylite.errors import ModelError, ModelFileError
from relaylite.gguf.digest import hex_digest
from relaylite.gguf.header import part_names

if TYPE_CHECKING:
    from huggingface_hub import HfFileMetadata

# File name, bytes done, bytes in all. Called in the fetching thread, and with all bytes done while they are checked. What it raises ends
# the download, which goes on from there the next time.
Progress = Callable[[str, int, int], None]

ASK_TIMEOUT_S = 4.0
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Remote:
    """One model file on the hub. `sha256` is what it must have; the hub's own value is used where that is unknown."""

    repo: str
    file: str
    revision: str = "main"
    sha256: str | None = None

    @property
    def url(self) -> str:
        return f"{endpoint()}/{self.repo}/resolve/{self.revision}/{self.file}"

    def parts(self) -> tuple[Remote, ...]:
        """All files of a model that is split into several, the first one first."""
        folder, _, name = self.file.rpartition("/")
        names = part_names(name)
        if len(names) == 1:
            return (self,)
        return tuple(Remote(self.repo, f"{folder}/{part}" if folder else part, self.revision) for part in names)


def endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def trouble() -> str:
    """Why the hub does not answer now, in some words; "" if it does. Asks for nothing but its head, and waits some seconds at most."""
    from huggingface_hub import get_session

    try:
        get_session().head(endpoint(), timeout=ASK_TIMEOUT_S)
    except _network_errors() as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""


def cached(remote: Remote) -> Path | None:
    """Where the model lies in the cache, if all its parts do; does not touch the network."""
    found = [_cached_file(part) for part in remote.parts()]
    return found[0] if all(found) else None


def fetch(remote: Remote, progress: Progress | None = None) -> Path:
    """The model's path in the cache, after fetching what is missing; what lies there already is used without asking the hub.

    Raises ModelError in one line: offline, no such file, access refused, no space, another checksum than expected.
    """
    found = [_cached_file(part) or _fetch_file(part, progress or (lambda *_: None)) for part in remote.parts()]
    return found[0]


def remove(remote: Remote) -> int:
    """Take the model out of the cache, with what an interrupted download left. Returns the bytes freed."""
    freed = 0
    for part in remote.parts():
        for snapshot in _folder(part).glob(f"snapshots/*/{part.file}"):
            blob = snapshot.resolve()
            freed += blob.stat().st_size if blob.exists() else 0
            snapshot.unlink()
            blob.unlink(missing_ok=True)
    for partial in _folder(remote).glob("blobs/*.part*"):
        freed += partial.stat().st_size
        partial.unlink()
    return freed


def _folder(remote: Remote) -> Path:
    return paths.hub_cache_folder() / f"models--{remote.repo.replace('/', '--')}"


def _cached_file(remote: Remote) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(remote.repo, remote.file, cache_dir=paths.hub_cache_folder(), revision=remote.revision)
    return Path(found) if isinstance(found, str) else None


def _fetch_file(remote: Remote, progress: Progress) -> Path:
    from filelock import FileLock, Timeout
    from huggingface_hub import hf_hub_download

    try:
        metadata = _metadata(remote)
        blob = _folder(remote) / "blobs" / str(metadata.etag)
        paths.ensure(blob.parent)
        try:
            with FileLock(f"{blob}.part.lock", timeout=0):
                if not blob.exists():
                    _grow(remote, metadata, blob, progress)
        except Timeout as error:
            raise ModelError(f"another process is fetching {remote.file}; wait for it and try again") from error
        return Path(
            hf_hub_download(remote.repo, remote.file, revision=remote.revision, cache_dir=paths.hub_cache_folder(), endpoint=endpoint())
        )
    except _network_errors() as error:
        _explain(remote, error)


def _metadata(remote: Remote) -> HfFileMetadata:
    """What the hub says of the file, after comparing it with what is expected and with the free space."""
    from huggingface_hub import get_hf_file_metadata

    metadata = get_hf_file_metadata(remote.url, endpoint=endpoint())
    if not metadata.etag or not metadata.commit_hash or not metadata.size:
        raise ModelError(f"{endpoint()} answers, but not as a model hub does; check HF_ENDPOINT")
    if remote.sha256 and _SHA256.fullmatch(metadata.etag) and metadata.etag != remote.sha256:
        raise ModelError(
            f"{remote.file} on the hub has the SHA-256 {metadata.etag}, the catalogue says {remote.sha256}; "
            f"use hf:{remote.repo}/{remote.file} if the change is meant"
        )
    return metadata


def _grow(remote: Remote, metadata: HfFileMetadata, blob: Path, progress: Progress) -> None:
    """Fetch what is missing of `blob`, check it, and give it its name."""
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    partial, size = blob.with_name(f"{blob.name}.part"), metadata.size or 0
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
    expected = remote.sha256 or (metadata.etag if _SHA256.fullmatch(metadata.etag or "") else None)
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


def _network_errors() -> tuple[type[Exception], ...]:
    """OSError, and the base error of the HTTP client, whichever this huggingface_hub uses."""
    from huggingface_hub.errors import HfHubHTTPError

    return tuple(base for base in HfHubHTTPError.__mro__[1:] if issubclass(base, Exception) and base is not Exception)


def _explain(remote: Remote, error: Exception) -> NoReturn:
    """Raises `error` as one line that says what to do."""
    from huggingface_hub import errors

    where = f"{remote.repo} at {endpoint()}"
    if isinstance(error, errors.GatedRepoError):
        raise ModelError(f"{remote.repo} asks for consent: accept its licence at {endpoint()}/{remote.repo} and set HF_TOKEN") from error
    if isinstance(error, errors.RevisionNotFoundError):
        raise ModelFileError(f"there is no revision {remote.revision!r} of {where}; check the name") from error
    if isinstance(error, errors.RemoteEntryNotFoundError):
        raise ModelFileError(f"there is no file {remote.file!r} in {where}; check the name") from error
    if isinstance(error, errors.RepositoryNotFoundError):
        raise ModelFileError(f"there is no repository {where}, or it is private; check the name, or set HF_TOKEN") from error
    if isinstance(error, OSError) and error.filename:
        raise ModelError(f"cannot write {error.filename}: {error.strerror}; set HF_HUB_CACHE to a folder that can be written") from error
    if isinstance(error, errors.HfHubHTTPError):
        raise ModelError(f"{endpoint()} answered {error.response.status_code} for {remote.file}; try again later") from error
    raise ModelError(
        f"cannot fetch {remote.file}: {endpoint()} is not reachable; connect and try again, or pass the path of a GGUF file that is here"
    ) from error
