"""Downloads through the real huggingface_hub against a local server that answers as the hub does."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from support.hub_server import COMMIT, Hub, serve

from relaylite.errors import ModelError
from relaylite.gguf import download
from relaylite.gguf.download import Remote

CONTENT = os.urandom(3_000_000)
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
    [part] = (download._folder(MODEL) / "blobs").glob("*.part")
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
    assert not list(download._folder(MODEL).glob("blobs/*.part"))
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
    blob.with_name("other.part").write_bytes(bytes(100))
    assert download.remove(MODEL) == len(CONTENT) + 100
    assert not path.exists() and not blob.exists() and download.cached(MODEL) is None
    assert download.remove(MODEL) == 0


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


def test_failing_hub(hub: Hub) -> None:
    hub.refuse = (500, "")
    assert "answered 500" in message()


def test_no_space(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 1_000_000))
    assert "set HF_HUB_CACHE" in message()


def test_two_processes_do_not_write_the_same_file(hub: Hub) -> None:
    blob = download._folder(MODEL) / "blobs" / hashlib.sha256(CONTENT).hexdigest()
    blob.parent.mkdir(parents=True)
    with FileLock(f"{blob}.part.lock"):
        assert "another process is fetching m.gguf" in message()
