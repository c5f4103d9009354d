"""`relaylite serve` as people start and stop it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from support.commands import Invoke, one_line

TIMEOUT_S = 300
URL = re.compile(r"serving (\S+) at (http://127\.0\.0\.1:\d+)/v1, with a page at \2; Ctrl-C ends\n")


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
        return port


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_answers_while_it_loads_serves_and_stops_at_a_signal(tmp_path: Path, number: signal.Signals, code: int) -> None:
    port = free_port()
    args = [sys.executable, "-m", "relaylite", "serve", "--port", str(port), "--ctx", "512", "--temperature", "0"]
    process = subprocess.Popen(args, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            statuses = []
            deadline = time.monotonic() + TIMEOUT_S
            while statuses[-1:] != [200] and time.monotonic() < deadline:
                assert process.poll() is None
                try:
                    statuses.append(http.get("/health").status_code)
                except httpx.ConnectError:
                    time.sleep(0.02)
            assert 503 in statuses and statuses[-1] == 200
            assert http.get("/v1/models").json()["data"][0]["id"].startswith("SmolLM2")
            assert http.get("/props").json()["default_generation_settings"]["params"]["max_tokens"] == -1
    finally:
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT_S)
    lines = err.splitlines(keepends=True)
    assert out == "" and (found := URL.fullmatch(lines[0])) and found[2].endswith(f":{port}"), err
    assert process.returncode == code and lines[1:] == ["relaylite: stopped serving\n"], err


def test_a_port_in_use_is_one_line(invoke: Invoke) -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        place.listen()
        result = invoke("serve", "--port", str(place.getsockname()[1]))
    assert result.exit_code == 2 and "Address already in use; give another --port" in one_line(result)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--host", "no.such.host.invalid"), "is no address of this machine"),
        (("--api-key", " ,"), "must give at least one key"),
        (("--api-key", "schlüssel"), "printable ASCII"),
        (("--api-key-file", "missing.txt"), "missing.txt: No such file"),
        (("--policy", "fastest"), "unknown policy"),
    ],
)
def test_what_cannot_be_is_one_line(invoke: Invoke, args: tuple[str, ...], says: str) -> None:
    result = invoke("serve", "--port", "0", *args)
    assert result.exit_code != 0 and says in one_line(result)


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['starlette'] = None; from relaylite.cli import main; main(['serve'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "relaylite: relaylite serve needs packages that are not installed: pip install 'relaylite[serve]'\n"
