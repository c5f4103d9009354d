"""Workers that are not there, are something else, serve somebody else, or go away: one line each."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.places import free_port, skip_unless_there, started_worker
from support.tiny_models import write_model

from relaylite.engine.engine import Engine
from relaylite.engine.options import EngineOptions
from relaylite.errors import ModelError, UsageError
from relaylite.machine import devices, workers
from relaylite.settings import readers

COMMAND = [sys.executable, "-m", "relaylite"]


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *args], capture_output=True, text=True, check=False, timeout=300)


@contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """A place that takes one connection and answers so; None: keeps it, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def serve() -> None:
            link, _ = server.accept()
            with link:
                link.recv(64)
                if answer is None:
                    done.wait(30)
                else:
                    link.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        done.set()
        thread.join()


@pytest.mark.parametrize(
    ("raw", "expected"), [("a:1,b:65535", ("a:1", "b:65535")), (["10.0.0.1:50052"], ("10.0.0.1:50052",)), (" a:1 , ", ("a:1",))]
)
def test_addresses_are_read(raw: object, expected: tuple[str, ...]) -> None:
    assert readers.addresses(raw) == expected


@pytest.mark.parametrize("raw", ["a", "a:", ":1", "a:0", "a:65536", "a:b", "[::1]:5", "a:1:2", "", 5, "a:²"])
def test_what_is_no_address_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        readers.addresses(raw)


def test_nobody_listens() -> None:
    expected = r"cannot reach the worker 127\.0\.0\.1:\d+ \(Connection refused\); start one there with `relaylite worker`"
    with pytest.raises(ModelError, match=expected):
        workers.ask(f"127.0.0.1:{free_port()}")


def test_a_name_that_nobody_has() -> None:
    with pytest.raises(ModelError, match=r"cannot reach the worker nobody\.invalid:1"):
        workers.ask("nobody.invalid:1")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(40), b"\x1c"])
def test_something_else_answers(answer: bytes) -> None:
    with answering(answer) as address, pytest.raises(ModelError, match=r"no llama\.cpp worker"):
        workers.ask(address)


def test_a_worker_of_another_version() -> None:
    answer = (28).to_bytes(8, "little") + bytes([6, 1, 2]) + bytes(25)
    with answering(answer) as address, pytest.raises(ModelError, match=r"speaks RPC 6\.1\.2, this llama\.cpp 7\.0; install the same"):
        workers.ask(address)


def test_one_that_keeps_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "ANSWER_S", 0.2)
    with answering(None) as address, pytest.raises(ModelError, match="does not answer: it serves another process"):
        workers.ask(address)


def test_the_answer_may_come_in_pieces() -> None:
    class Slow:
        def __init__(self, data: bytes) -> None:
            self._left = data

        def recv(self, n: int) -> bytes:
            piece, self._left = self._left[: min(n, 3)], self._left[min(n, 3) :]
            return piece

    receive: Callable[..., bytes] = workers._received
    assert receive(Slow(b"0123456789"), 8) == b"01234567"
    assert receive(Slow(b"0123"), 8) == b"0123"


def test_a_build_without_rpc_says_how_to_build(tmp_path: Path) -> None:
    if devices.has_rpc():
        pytest.skip("this llama-cpp-python has RPC")
    path = write_model(tmp_path / "m.gguf", "llama")
    with pytest.raises(UsageError, match=r"built without RPC: run CMAKE_ARGS=\"-DGGML_RPC=on\" pip install"):
        Engine.open(path, EngineOptions(rpc=("127.0.0.1:1",)))
    for command in (("run", "--rpc", "127.0.0.1:1", "-m", str(path), "hi"), ("worker",)):
        done = run(*command)
        assert done.returncode == 2 and "built without RPC" in done.stderr and done.stderr.count("\n") == 1


def test_an_unreachable_worker_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    skip_unless_there("worker")
    path = write_model(tmp_path / "m.gguf", "llama")
    done = run("run", "--rpc", f"127.0.0.1:{free_port()}", "-m", str(path), "hi")
    assert done.returncode == 1 and "cannot reach the worker" in done.stderr and done.stderr.count("\n") == 1


def test_a_worker_serves_one_engine_at_a_time(worker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "ANSWER_S", 0.5)
    path = write_model(tmp_path / "m.gguf", "llama")
    options = EngineOptions(n_ctx=256, n_threads=1, rpc=(worker,))
    engine = Engine.open(path, options)
    try:
        with pytest.raises(UsageError, match="serves a model of this process already"):
            Engine.open(path, options)
        with pytest.raises(ModelError, match="serves another process"):
            workers.ask(worker)
    finally:
        engine.close()
    Engine.open(path, options).close()


def test_a_worker_warns_where_others_can_reach_it_and_says_why_it_cannot_listen(tmp_path: Path) -> None:
    skip_unless_there("worker")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("worker", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2 and "cannot listen at 127.0.0.1" in done.stderr and workers.WARNING not in done.stderr
    done = run("worker", "--host", "192.0.2.1")  # no address of this machine
    assert done.returncode == 2 and workers.WARNING in done.stderr and "cannot listen at 192.0.2.1" in done.stderr
    assert "must be an IPv4 address" in run("worker", "--host", "localhost").stderr


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_worker_that_goes_away_is_one_line(flags: tuple[str, ...], tmp_path: Path, default_model_path: Path) -> None:
    """ggml would end the process with a trace of its own stack."""
    skip_unless_there("worker")
    with started_worker(tmp_path / "log") as (address, process):
        args = ["run", "--rpc", address, "-m", str(default_model_path), "--agents", "plan", "--max-tokens", "2000", "Count to a thousand."]
        with subprocess.Popen(
            [*COMMAND, *args, "--threads", "1", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as client:
            assert client.stdout is not None and client.stderr is not None
            assert workers.WARNING in client.stderr.readline(), "said when the chain begins"
            if not flags:
                assert client.stdout.read(12), "nothing was written"
            process.kill()
            shown, said = client.communicate(timeout=120)
    gone = f"a worker ({address}) went away, and llama.cpp cannot go on without it; start it again, then this"
    assert (client.returncode, said) == (1, f"relaylite: {gone}\n")
    if flags:
        assert json.loads(shown)["error"] == gone
