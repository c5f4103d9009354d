"""`relaylite serve` and llama-server, started as programs of their own on the same model. llama-server is built where it is missing."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opened import plain_parser_of
from recorder import Recorder

from relaylite.gguf.catalog import resolve_model

LLAMA = "llama-cpp-python==0.3.36"
PATIENCE_S = 900
SERVERS = ("llama-server", "relaylite", "prefix")  # "prefix": relaylite that takes over no more than the start of a prompt


def servers_parser_of(about: str) -> argparse.ArgumentParser:
    """A parser with what `commands_of` needs."""
    parser = plain_parser_of(about)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", default="default", help="a path, or a name as in relaylite models list")
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--llama-server", type=Path, help="built in FOLDER if none is given")
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=["llama-server", "relaylite"])
    return parser


def commands_of(options: argparse.Namespace) -> dict[str, list[str]]:
    """How each server is started, without its port."""
    shared = ["--threads", str(options.threads)]
    relaylite = [
        sys.executable,
        "-m",
        "relaylite",
        "serve",
        "--model",
        str(resolve_model(options.model)),
        "--ctx",
        str(options.ctx),
        *shared,
    ]
    commands = {"relaylite": relaylite, "prefix": [*relaylite, "--policy", "prefix"]}
    if "llama-server" in options.servers:
        server = str(options.llama_server or built_llama_server(options.folder))
        flags = ["-np", "1", "--cache-reuse", "32", "--jinja", *shared]
        commands["llama-server"] = [server, "-m", str(resolve_model(options.model)), "-c", str(options.ctx), *flags]
    return {name: commands[name] for name in options.servers}


def built_llama_server(folder: Path) -> Path:
    """From the sources that llama-cpp-python brings; half an hour on two cores."""
    found = list(folder.glob("llama_cpp_python-*/vendor/llama.cpp/build/bin/llama-server"))
    if found:
        return found[0]
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-python", "-d", str(folder), LLAMA]
    subprocess.run(download, check=True)
    with tarfile.open(next(folder.glob("llama_cpp_python-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    [sources] = folder.glob("llama_cpp_python-*/vendor/llama.cpp")
    left_out = [f"-DLLAMA_{name}=OFF" for name in ("CURL", "BUILD_TESTS", "BUILD_EXAMPLES", "USE_PREBUILT_UI")]
    subprocess.run(["cmake", "-S", sources, "-B", sources / "build", "-DCMAKE_BUILD_TYPE=Release", *left_out], check=True)
    subprocess.run(["cmake", "--build", sources / "build", "--target", "llama-server", "-j", str(os.cpu_count())], check=True)
    return sources / "build" / "bin" / "llama-server"


@contextmanager
def serving(command: list[str], folder: Path) -> Iterator[Recorder]:
    """The server that `command` starts at the port that is added to it, behind a recorder. It knows nothing of earlier ones."""
    shutil.rmtree(folder / "home", ignore_errors=True)
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)], stdout=log, stderr=log, env={**os.environ, "RELAYLITE_HOME": str(folder / "home")}
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process)
        recorder = Recorder(port)
        yield recorder
        recorder.close()
    finally:
        process.terminate()
        process.wait()


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
        document: dict[str, Any] = json.load(answer)
    return document


def count_tokens(server: str, text: str) -> int:
    return len(post(f"{server}/tokenize", {"content": text, "parse_special": True})["tokens"])


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit("the server ended before it was ready; server.log says why")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise SystemExit("the server is not ready after so long")
