"""Files are replaced whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from relaylite import paths


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    path.write_text("old")
    with paths.replacing(path) as new:
        new.write_text("half")
        assert path.read_text() == "old" and new.parent == tmp_path
    assert path.read_text() == "half" and names(tmp_path) == ["notes.json"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_for_others_to_read_has_the_mode_that_the_user_gives_to_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with paths.replacing(tmp_path / "notes.md", mode=0o666) as new:
            new.write_text("for all")
    finally:
        os.umask(before)
    assert (tmp_path / "notes.md").stat().st_mode & 0o777 == 0o640


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), paths.replacing(path) as new:
        new.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and names(tmp_path) == ["notes.json"]


def test_a_folder_that_is_not_there_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), paths.replacing(tmp_path / "none" / "notes.json") as new:
        new.write_text("never")
