"""What went wrong with a download, as one line that says what is so and what to do."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NoReturn

from relaylite import paths
from relaylite.errors import ModelError, ModelFileError, UsageError
from relaylite.gguf.download.remote import Remote, endpoint

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DISK = (*_FULL, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)  # no connection fails with these
_OFFLINE = "HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE) is set, so nothing is fetched; unset it to fetch models"


def network_errors() -> tuple[type[Exception], ...]:
    """OSError, and the base error of the HTTP client, whichever this huggingface_hub uses."""
    from huggingface_hub.errors import HfHubHTTPError

    return tuple(base for base in HfHubHTTPError.__mro__[1:] if issubclass(base, Exception) and base is not Exception)


def check_asking() -> None:
    """Raises UsageError if the hub's address or the user's token cannot be sent, ModelError if nothing may be asked."""
    endpoint()
    from huggingface_hub import constants, get_token

    token = get_token() or ""
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise UsageError("the token for the hub holds characters that no token has; correct HF_TOKEN, or unset it")
    if constants.HF_HUB_OFFLINE:
        raise ModelError(_OFFLINE)


def reason(error: Exception) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def explain(remote: Remote, error: Exception) -> NoReturn:
    """Raises `error` as one line that says what to do."""
    from huggingface_hub import errors

    where = f"{remote.repo} at {endpoint()}"
    if isinstance(error, errors.OfflineModeIsEnabled):
        raise ModelError(_OFFLINE) from error
    if isinstance(error, errors.GatedRepoError):
        raise ModelError(f"{remote.repo} asks for consent: accept its licence at {endpoint()}/{remote.repo} and set HF_TOKEN") from error
    if isinstance(error, errors.DisabledRepoError):
        raise ModelError(f"the hub has disabled {where}; name another model") from error
    if isinstance(error, errors.RevisionNotFoundError):
        raise ModelFileError(f"there is no revision {remote.revision!r} of {where}; check the name") from error
    if isinstance(error, errors.RemoteEntryNotFoundError):
        raise ModelFileError(f"there is no file {remote.file!r} in {where}; check the name") from error
    if isinstance(error, errors.RepositoryNotFoundError):
        raise ModelFileError(f"there is no repository {where}, or it is private; check the name, or set HF_TOKEN") from error
    if isinstance(error, errors.HfHubHTTPError):
        raise ModelError(f"{endpoint()} answered {error.response.status_code} for {remote.file}{_advice(error)}") from error
    if isinstance(error, OSError) and error.errno in _DISK:
        raise ModelError(_disk_trouble(remote, error)) from error
    if isinstance(error, OSError) and error.filename:
        raise ModelError(f"cannot write {error.filename}: {error.strerror}; set HF_HUB_CACHE to a folder that can be written") from error
    if isinstance(error, OSError) and "onsistency check" in str(error):
        raise ModelError(f"{remote.file} did not arrive whole; try again, which goes on from what is here") from error
    raise ModelError(
        f"cannot fetch {remote.file}: {endpoint()} is not reachable ({reason(error)}); connect and try again, "
        "or pass the path of a GGUF file that is here"
    ) from error


def _advice(error: Exception) -> str:
    """How the line about an answer of the hub goes on."""
    status = error.response.status_code  # type: ignore[attr-defined]
    said = {
        401: ": it does not accept the token; correct HF_TOKEN, or unset it",
        403: ": it refuses access; set HF_TOKEN to a token that may read this",
        404: ": it knows no such address; check HF_ENDPOINT and the name",
        407: ": a proxy wants a login; check HTTPS_PROXY",
        429: ": too many requests; wait some minutes, or set HF_TOKEN",
    }
    return said.get(status, "; try again later")


def _disk_trouble(remote: Remote, error: OSError) -> str:
    place = Path(error.filename) if error.filename else paths.hub_cache_folder()
    if error.errno in _FULL:
        return f"the disk is full: {remote.file} cannot be written to {place}; free some space and try again, which goes on from there"
    return f"cannot write {place}: {error.strerror}; set HF_HUB_CACHE to a folder that can be written"
