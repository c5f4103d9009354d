"""Commands as processes of their own, on the small model: signals, closed and full outputs, real answers."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.hub_server import Hub, serve

from relaylite.gguf import download
from relaylite.gguf.download import Remote

TIMEOUT_S = 300
LONG_TASK = "Say what follows in your own words. " + "The quick brown fox jumps over the lazy dog. " * 300


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(*args: str, **streams: int) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.Popen([sys.executable, "-m", "relaylite", *args], **pipes)  # type: ignore[call-overload,no-any-return]


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


def run(*args: str) -> tuple[int, str, str]:
    return finish(start(*args))


@pytest.fixture
def screen() -> Iterator[tuple[int, int]]:
    """A terminal: our end, and the process's."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)


def read_until(end: int, text: str) -> str:
    seen = ""
    while text not in seen:
        seen += os.read(end, 4096).decode(errors="replace")
    return seen


def test_a_chain_relays_on_the_real_model() -> None:
    code, out, err = run("run", "Write a function that adds two numbers.", "-a", "plan,code", "-n", "40", "--json")
    document = json.loads(out)
    assert (code, document["error"]) == (0, None), err
    first, second = document["agents"]
    assert first["text"] and first["span_tokens"] == 0
    assert second["span_tokens"] >= 32 and 0 < second["prompt_reuse"] <= 1
    for agent in document["agents"]:
        assert agent["prefix_tokens"] + agent["span_tokens"] + agent["computed_tokens"] == agent["prompt_tokens"]
    assert err.count("wrote ") == 2


def test_a_conversation_goes_on_from_its_first_round() -> None:
    process = start("chat", "-a", "plan", "-n", "8", "--policy", "prefix", stdin=subprocess.PIPE)
    out, err = process.communicate(b"Name a colour.\nAnd another one.\n", timeout=TIMEOUT_S)
    first, second = (line for line in err.decode().splitlines() if line.startswith("[plan]"))
    assert process.returncode == 0 and out.decode().count("## plan\n") == 2
    assert "= 0 prefix" in first and "= 0 prefix" not in second


def test_info_says_that_the_small_model_relays() -> None:
    code, out, err = run("info", "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["can_relay"] and (document["n_layer"], document["n_head"], document["n_head_kv"]) == (30, 9, 3)
    assert document["kv_bytes_per_token"] == 30 * 3 * 64 * 2 * 2


def test_ctrl_c_while_writing_keeps_the_answer_so_far() -> None:
    process = start("run", "Tell a long story.", "-a", "write", "-n", "2000")
    assert process.stdout is not None
    seen = process.stdout.read(40).decode()
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130 and seen.startswith("## write\n") and (seen + out).endswith("\n")
    assert "(stopped)" in err and "Traceback" not in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("phase", ["loading ", "plan reads"])
def test_signals_while_loading_and_reading(screen: tuple[int, int], phase: str, number: int, code: int) -> None:
    process = start("run", LONG_TASK, "--ctx", "8192", "-n", "8", stderr=screen[1])
    os.close(screen[1])
    read_until(screen[0], phase)
    process.send_signal(number)
    threading.Thread(target=lambda: _drain(screen[0]), daemon=True).start()
    assert process.wait(TIMEOUT_S) == code


def _drain(end: int) -> None:
    try:
        while os.read(end, 4096):
            pass
    except OSError:
        pass


def test_a_model_that_prints_control_sequences_does_not_run_them(screen: tuple[int, int]) -> None:
    task = "\x1b]0;owned\x07\x1b[2J"
    process = start("run", task, "-a", "translate", "-n", "4", "--model", f"{task}.gguf", stderr=screen[1])
    os.close(screen[1])
    seen = read_until(screen[0], "\n")
    assert process.wait(TIMEOUT_S) == 2 and "there is no file ␛]0;owned␇␛[2J.gguf" in seen and "\x1b]" not in seen


def test_a_download_that_is_stopped_goes_on_later(monkeypatch: pytest.MonkeyPatch, folder: Path, default_model_path: Path) -> None:
    content = default_model_path.read_bytes()
    with serve(Hub({"o/r/m.gguf": content}, stall=threading.Event())) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        process = start("models", "pull", "hf:o/r/m.gguf")
        blobs = download._folder(Remote("o/r", "m.gguf")) / "blobs"
        while not (parts := list(blobs.glob("*.part"))) or not parts[0].stat().st_size:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert finish(process)[0] == 130
        assert hub.stall is not None
        hub.stall.set()
        hub.stall = None
        size = parts[0].stat().st_size
        assert 0 < size < len(content) and download.cached(Remote("o/r", "m.gguf")) is None
        code, out, _ = run("models", "pull", "hf:o/r/m.gguf")
        assert code == 0 and Path(out.strip()).read_bytes() == content
        assert [asked for method, path, asked in hub.requests if method == "GET" and path.endswith("m.gguf")] == [None, f"bytes={size}-"], (
            hub.requests
        )


def test_what_reads_our_output_may_stop_reading() -> None:
    process = start("agents")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(TIMEOUT_S) == 141 and process.stderr is not None and process.stderr.read() == b""


def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        code, _, err = finish(start("config", stdout=full.fileno()))
    assert code == 1 and err.count("\n") == 1 and "No space left on device" in err


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_stream_is_no_traceback(closed: int) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec '{sys.executable}' -m relaylite run -a nobody x {closed}>&-"],
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 2 and b"Traceback" not in done.stdout + done.stderr
