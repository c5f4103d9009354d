"""TOML files that a user writes, and one line for each thing that can be wrong with them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from relaylite.errors import UsageError
from relaylite.paths import read_whole


def read_toml(path: Path, called: str = "", *, may_be_missing: bool = False) -> dict[str, Any]:
    """The content of a file; {} without one if it `may_be_missing`. Raises UsageError in one line that names the file as it is `called`."""
    called = called or str(path)
    try:
        return tomllib.loads(read_whole(path).decode("utf-8-sig"))
    except OSError as error:
        if may_be_missing and isinstance(error, FileNotFoundError):
            return {}
        raise UsageError(f"cannot read {called}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{called} is not UTF-8 text") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: {error}") from error
