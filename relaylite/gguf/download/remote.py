"""`Remote`: one model file on the hub, and the hub's address. What no hub can have is refused here, before huggingface_hub sees it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from relaylite.errors import UsageError
from relaylite.gguf.header import part_names

DEFAULT_ENDPOINT = "https://huggingface.co"
_NAME = re.compile(r"(?=.{1,96}$)(?!.*(?:--|\.\.))[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")  # of an owner or a repository
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
_HOST = re.compile(r"[\w.:-]+")


@dataclass(frozen=True, slots=True)
class Remote:
    """One model file on the hub. `sha256` is what it must have; the hub's own value is used where that is unknown."""

    repo: str
    file: str
    revision: str = "main"
    sha256: str | None = None

    @property
    def url(self) -> str:
        return f"{endpoint()}/{self.repo}/resolve/{quote(self.revision, safe='')}/{quote(self.file)}"

    def parts(self) -> tuple[Remote, ...]:
        """All files of a model that is split into several, the first one first."""
        folder, _, name = self.file.rpartition("/")
        names = part_names(name)
        if len(names) == 1:
            return (self,)
        return tuple(Remote(self.repo, f"{folder}/{part}" if folder else part, self.revision) for part in names)


def parse_remote(reference: str) -> Remote:
    """The file that `hf:owner/repo/file.gguf` or `hf:owner/repo@revision/file.gguf` stands for. Raises UsageError if it names none."""
    parts = reference.removeprefix("hf:").split("/")
    if len(parts) < 3 or not all(parts) or ".." in parts or "." in parts or not parts[-1].endswith(".gguf"):
        raise UsageError(f"{reference!r} names no file on the hub; write hf:owner/repo/file.gguf")
    owner, (repo, at, revision), file = parts[0], parts[1].partition("@"), "/".join(parts[2:])
    if at and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise UsageError(f"{reference!r} names no revision of a repository; write hf:owner/repo@revision/file.gguf")
    if not _NAME.fullmatch(owner) or not _NAME.fullmatch(repo) or repo.endswith(".git"):
        raise UsageError(
            f"{reference!r} names no repository of the hub: letters, digits and single . _ - make up owner/repo; "
            "write hf:owner/repo/file.gguf"
        )
    if not file.isprintable() or max(map(len, map(os.fsencode, parts[2:]))) > 255:
        raise UsageError(f"{reference!r} names no file on the hub: a name there is printable UTF-8 text of at most 255 bytes")
    return Remote(f"{owner}/{repo}", file, revision or "main")


def endpoint() -> str:
    """The hub's address: what HF_ENDPOINT says, or huggingface.co. Raises UsageError if that is no address."""
    named = (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
    try:
        address = urlsplit(named)
        is_one = address.scheme in ("http", "https") and _HOST.fullmatch(address.hostname or "") and address.port != 0
        named.encode("ascii")
    except ValueError:
        is_one = None
    if not is_one or not named.isprintable() or " " in named:
        raise UsageError(f"HF_ENDPOINT is {named!r}, which is no address of a hub; write one such as {DEFAULT_ENDPOINT}, or unset it")
    return named
