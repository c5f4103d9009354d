"""A fingerprint names content: neither a file's name nor its times decide, and the cache of digests can be damaged in any way."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from relaylite import paths
from relaylite.gguf import fingerprint


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + bytes(5000))
    return path


def known_file() -> Path:
    return paths.cache_folder() / "fingerprints.json"


def test_the_same_content_under_another_name_is_the_same(model: Path) -> None:
    other = model.with_name("other.gguf")
    other.write_bytes(model.read_bytes())
    assert fingerprint.of_file(model) == fingerprint.of_file(other)


def test_a_link_is_what_it_points_at(model: Path) -> None:
    link = model.with_name("link.gguf")
    link.symlink_to(model)
    assert fingerprint.of_file(link) == fingerprint.of_file(model)


def test_other_content_under_the_same_name_is_another(model: Path) -> None:
    before = fingerprint.of_file(model)
    model.write_bytes(b"GGUF" + bytes(4999) + b"\1")
    assert fingerprint.of_file(model) != before


def test_other_content_of_the_same_size_and_time_is_another(model: Path) -> None:
    """As `rsync --times` or `cp --preserve` leave a file that was replaced."""
    before, stat = fingerprint.of_file(model), model.stat()
    with model.open("r+b") as file:
        file.seek(2000)
        file.write(b"\1")
    os.utime(model, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (model.stat().st_size, model.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    assert fingerprint.of_file(model) != before


def test_a_known_file_is_not_read_again(model: Path) -> None:
    fingerprint.of_file(model)
    [key] = json.loads(known_file().read_text())
    known_file().write_text(json.dumps({key: "remembered"}))
    assert fingerprint.of_file(model) == "remembered"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe\x00", b'{"a": ["b"]}'])
def test_a_damaged_cache_costs_a_hash_and_is_mended(content: bytes, model: Path) -> None:
    expected = fingerprint.of_file(model)
    known_file().write_bytes(content)
    assert fingerprint.of_file(model) == expected
    assert expected in json.loads(known_file().read_text()).values()


def test_what_the_cache_holds_is_a_digest_or_nothing(model: Path) -> None:
    expected = fingerprint.of_file(model)
    [key] = json.loads(known_file().read_text())
    known_file().write_text(json.dumps({key: {"not": "a digest"}}))
    assert fingerprint.of_file(model) == expected


def test_a_cache_folder_that_cannot_be_written_costs_a_hash(model: Path, home: Path) -> None:
    paths.cache_folder().parent.mkdir(parents=True, exist_ok=True)
    paths.cache_folder().write_text("a file where the folder should be")
    assert fingerprint.of_file(model) == fingerprint.of_file(model)


def test_combined_depends_on_every_part_and_its_place() -> None:
    combined = fingerprint.combined
    assert combined("a", "b") == combined("a", "b")
    assert len({combined("a", "b"), combined("b", "a"), combined("a"), combined("a", "c"), combined("ab", "")}) == 5
