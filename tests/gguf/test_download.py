"""Downloads through the real huggingface_hub against a local server that answers as the hub does."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from filelock import FileLock
from support.hub_server import COMMIT, Hub, serve
from support.small_file import write_model

from relaylite.errors import ModelError, UsageError
from relaylite.gguf import download
from relaylite.gguf.download import Remote
from relaylite.gguf.download.cache import folder_of, growing, partial_of

with tempfile.TemporaryDirectory() as folder:
    CONTENT = write_model(Path(folder) / "m.gguf").read_bytes() + os.urandom(3_000_000)
MODEL = Remote("owner/repo", "m.gguf")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serve(Hub({"owner/repo/m.gguf": CONTENT})) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


def message(remote: Remote = MODEL) -> str:
    with pytest.raises(ModelError) as caught:
        download.fetch(remote)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_is_fetched_once_into_the_cache_that_other_tools_use(hub: Hub, home: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    path = download.fetch(MODEL, lambda *step: steps.append(step))
    assert path == home / "hub" / "models--owner--repo" / "snapshots" / COMMIT / "m.gguf"
    assert path.read_bytes() == CONTENT
    assert steps[0] == ("m.gguf", 0, len(CONTENT)) and steps[-1] == ("m.gguf", len(CONTENT), len(CONTENT))
    hub.requests.clear()
    assert download.fetch(MODEL) == download.cached(MODEL) == path
    assert hub.requests == []


def test_an_interrupted_download_is_resumed(hub: Hub) -> None:
    class Interrupt(Exception):
        pass

    def interrupt(_: str, done: int, __: int) -> None:
        if done:
            raise Interrupt

    partial = CONTENT[:1_000_000]
    with pytest.raises(Interrupt):
        download.fetch(MODEL, interrupt)
    assert download.cached(MODEL) is None
    [part] = (folder_of(MODEL) / "blobs").glob("*.part")
    part.write_bytes(partial)
    hub.requests.clear()
    assert download.fetch(MODEL).read_bytes() == CONTENT
    assert [asked for method, _, asked in hub.requests if method == "GET"] == [f"bytes={len(partial)}-"]


def test_a_stop_is_seen_while_the_file_is_checked_and_nothing_is_fetched_again(hub: Hub) -> None:
    n_complete = 0

    def interrupt(_: str, done: int, total: int) -> None:
        nonlocal n_complete
        n_complete += done == total
        if n_complete == 3:  # once when the last bytes came, then for each MiB that was read again
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download.fetch(MODEL, interrupt)
    assert download.cached(MODEL) is None
    hub.requests.clear()
    assert download.fetch(MODEL).read_bytes() == CONTENT
    assert not [method for method, _, _ in hub.requests if method == "GET"]


def test_a_connection_that_breaks_off_goes_on_where_it_stopped(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 100_000)
    hub.cut_after = 1_400_000
    assert download.fetch(MODEL).read_bytes() == CONTENT
    asked = [asked for method, _, asked in hub.requests if method == "GET"]
    assert asked == [None, "bytes=1400000-", "bytes=2800000-"]


def test_what_differs_from_the_hubs_checksum_is_refused_and_removed(hub: Hub) -> None:
    hub.corrupt = True
    assert "arrived damaged" in message()
    assert download.cached(MODEL) is None
    assert not list(folder_of(MODEL).glob("blobs/*.part"))
    hub.corrupt = False
    assert download.fetch(MODEL).read_bytes() == CONTENT


def test_another_checksum_than_the_catalogues_is_refused_before_fetching(hub: Hub) -> None:
    assert "the catalogue says " + "a" * 64 in message(Remote("owner/repo", "m.gguf", sha256="a" * 64))
    assert [method for method, _, _ in hub.requests] == ["HEAD"]


def test_a_split_model_is_fetched_whole(hub: Hub) -> None:
    names = [f"sub/m-0000{i}-of-00002.gguf" for i in (1, 2)]
    hub.files |= {f"owner/repo/{name}": name.encode() for name in names}
    path = download.fetch(Remote("owner/repo", names[0]))
    assert [path.parent.joinpath(Path(name).name).read_text() for name in names] == names
    assert download.cached(Remote("owner/repo", names[0])) == path


def test_remove_frees_the_file_and_what_was_half_fetched(hub: Hub, home: Path) -> None:
    path = download.fetch(MODEL)
    blob = path.resolve()
    partial_of(MODEL, blob.with_name("other")).write_bytes(bytes(100))
    assert download.remove(MODEL) == len(CONTENT) + 100
    assert not path.exists() and not blob.exists() and download.cached(MODEL) is None
    assert download.remove(MODEL) is None


def links(home: Path) -> list[Path]:
    return [path for path in (home / "hub").glob("**/snapshots/**/*") if path.is_symlink()]


def test_removing_one_revision_leaves_another_one_that_shares_the_content(hub: Hub, home: Path) -> None:
    old = Remote("owner/repo", "m.gguf", "v1")
    download.fetch(MODEL)
    kept = download.fetch(old)
    assert kept.resolve() == download.fetch(MODEL).resolve()
    assert download.remove(MODEL) == 0
    assert download.cached(MODEL) is None and kept.read_bytes() == CONTENT
    assert all(link.exists() for link in links(home))
    assert download.remove(old) == len(CONTENT)
    assert not links(home) and not list(home.glob("hub/*/blobs/*[!k]"))


def test_removing_one_name_leaves_another_one_of_the_same_content(hub: Hub, home: Path) -> None:
    hub.files["owner/repo/copy/m.gguf"] = CONTENT
    copy = Remote("owner/repo", "copy/m.gguf")
    download.fetch(MODEL)
    kept = download.fetch(copy)
    assert download.remove(MODEL) == 0 and kept.read_bytes() == CONTENT and all(link.exists() for link in links(home))
    assert download.remove(copy) == len(CONTENT)


def test_a_link_that_leads_nowhere_is_removed_or_fetched_anew(hub: Hub, home: Path) -> None:
    path = download.fetch(MODEL)
    path.resolve().unlink()
    assert download.cached(MODEL) is None
    assert download.fetch(MODEL).read_bytes() == CONTENT
    path.resolve().unlink()
    assert download.remove(MODEL) == 0 and not path.is_symlink()


def test_an_empty_file_is_found_and_removed(hub: Hub) -> None:
    path = download.fetch(MODEL)
    path.resolve().write_bytes(b"")
    assert download.remove(MODEL) == 0
    assert download.remove(MODEL) is None


def test_removing_a_file_leaves_downloads_of_others_alone(hub: Hub) -> None:
    other = Remote("owner/repo", "other.gguf")
    download.fetch(MODEL)
    partial = partial_of(other, folder_of(other) / "blobs" / "abc")
    partial.write_bytes(bytes(100))
    assert download.remove(MODEL) == len(CONTENT)
    assert partial.exists()
    with growing(other, "abc"), pytest.raises(ModelError, match=r"another process is fetching other\.gguf"):
        download.remove(other)
    assert partial.exists()
    assert download.remove(other) == 100


@pytest.mark.parametrize("left", [b"", CONTENT[:50], CONTENT[:400], b"<html>", bytes(len(CONTENT))])
def test_a_damaged_file_in_the_cache_is_fetched_again(hub: Hub, left: bytes) -> None:
    path = download.fetch(MODEL)
    path.resolve().write_bytes(left)
    assert download.fetch(MODEL) == path and path.read_bytes() == CONTENT


def test_a_damaged_file_that_cannot_be_fetched_again_stays(hub: Hub) -> None:
    path = download.fetch(MODEL)
    path.resolve().write_bytes(CONTENT[:50])
    hub.refuse = (500, "")
    assert "is truncated" in (text := message()) and "answered 500" in text
    assert path.read_bytes() == CONTENT[:50]


def test_a_file_that_is_no_model_on_the_hub_is_fetched_once(hub: Hub) -> None:
    hub.files["owner/repo/page.gguf"] = b"<html>"
    page = Remote("owner/repo", "page.gguf")
    download.fetch(page)
    hub.requests.clear()
    download.fetch(page)
    assert not [method for method, _, _ in hub.requests if method == "GET"]


def test_a_name_with_signs_that_addresses_use_is_asked_for_as_it_is(hub: Hub) -> None:
    name = "a b#c?d%20.gguf"
    hub.files[f"owner/repo/{name}"] = CONTENT
    assert download.fetch(Remote("owner/repo", name)).read_bytes() == CONTENT


class FullDisk:
    """Takes the place of a partial file whose disk is full behind the first bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, _: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_disk_that_fills_up_while_fetching(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import file_download

    fetch = file_download.http_get
    monkeypatch.setattr(file_download, "http_get", lambda url, file, **more: fetch(url, FullDisk(file), **more))
    text = message()
    assert "the disk is full" in text and "m.gguf" in text and "reachable" not in text


def test_a_cache_that_cannot_be_written(hub: Hub, home: Path) -> None:
    (home / "hub" / "models--owner--repo").mkdir(parents=True)
    (home / "hub" / "models--owner--repo" / "refs").write_text("in the way")
    assert "cannot write" in (text := message()) and "refs" in text


def test_offline_by_ones_own_will(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE" in (text := message()) and "unset it" in text and "reachable" not in text
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    path = download.fetch(MODEL)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert download.fetch(MODEL) == path, "what is here needs nobody"


ODD_ENDPOINTS = (
    "foo",
    "http://[",
    "http://a:99999",
    "http://a:x",
    "ftp://x",
    "file:///x",
    "http://é é",
    "http://a b",
    "http://",
    "http://a\n",
)


@pytest.mark.parametrize("odd", ODD_ENDPOINTS)
def test_an_endpoint_that_is_no_address(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", odd)
    assert download.cached(MODEL) is None
    for ask in (lambda: download.fetch(MODEL), download.trouble):
        with pytest.raises(UsageError, match=r"HF_ENDPOINT is .* no address of a hub"):
            ask()


def test_an_empty_endpoint_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "")
    assert download.endpoint() == "https://huggingface.co"


@pytest.mark.parametrize("token", ["hf_é", "hf_a b", "hf_\x01"])
def test_a_token_that_cannot_be_sent(hub: Hub, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(UsageError, match="correct HF_TOKEN") as caught:
        download.fetch(MODEL)
    assert token not in str(caught.value)


def test_offline(home: Path) -> None:
    text = message()
    assert "http://127.0.0.1:9 is not reachable" in text and "pass the path of a GGUF file" in text


def test_unknown_names(hub: Hub) -> None:
    assert "no repository owner/other" in message(Remote("owner/other", "m.gguf"))
    assert "no file 'x.gguf' in owner/repo" in message(Remote("owner/repo", "x.gguf"))
    assert "no revision 'v9'" in message(Remote("owner/repo", "m.gguf", revision="v9"))


def test_gated(hub: Hub) -> None:
    hub.refuse = (403, "GatedRepo")
    assert "accept its licence" in message()


@pytest.mark.parametrize(
    ("status", "said"),
    [(500, "try again later"), (401, "HF_TOKEN"), (403, "refuses access"), (404, "check HF_ENDPOINT"), (429, "too many requests")],
)
def test_failing_hub(hub: Hub, status: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    hub.refuse = (status, "")
    assert said in (text := message()) and "reachable" not in text


def test_no_space(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 1_000_000))
    assert "set HF_HUB_CACHE" in message()


def test_two_processes_do_not_write_the_same_file(hub: Hub) -> None:
    blob = folder_of(MODEL) / "blobs" / hashlib.sha256(CONTENT).hexdigest()
    blob.parent.mkdir(parents=True)
    with FileLock(f"{blob}.part.lock"):
        assert "another process is fetching m.gguf" in message()
