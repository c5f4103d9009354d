"""What can be wrong with a TOML file is one line that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from relaylite.errors import UsageError
from relaylite.settings.toml_file import read_toml


def test_a_file_is_read_and_a_missing_one_may_be_empty(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    assert read_toml(file, may_be_missing=True) == {}
    file.write_text("[x]\ny = 'é'\n", encoding="utf-8")
    assert read_toml(file) == {"x": {"y": "é"}}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot read the list: No such file or directory"),
        (b"x = '\xff'", "the list is not UTF-8 text"),
        (b"x = ", "a.toml: Invalid value (at end of document)"),
        (b"x = " + b"[" * 5000, "a.toml: "),
    ],
)
def test_a_damaged_one_is_one_line(content: bytes | None, says: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_toml(tmp_path / "a.toml", "the list")
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_is_not_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Is a directory"):
        read_toml(tmp_path, may_be_missing=True)
