"""Agent frameworks on `relaylite serve` and on llama-server: what the agent that reads waits for, and what was taken over for it.

    python benchmarks/serve_clients.py --folder FOLDER [--clients NAME …] [--model FILE] [--llama-server FILE | --no-llama-server]

Each framework is installed from PyPI into an environment of its own in FOLDER, and runs its program of `benchmarks/clients`: one agent
writes a plan, another one reads it. llama-server is built in FOLDER from the sources that llama-cpp-python brings (half an hour on two
cores), unless one is given; it runs with `--cache-reuse 32`. Both servers are started anew for each framework, on the same model and with
the same context. The figures are those of the last request of each program: its prompt, how much of it was not computed, and the time of
computing the rest, as the servers report it. With a name that fails stands the end of what it said.
"""

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
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opened import plain_parser_of
from recorder import Recorded, Recorder

from relaylite.gguf.catalog import resolve_model

PROGRAMS = Path(__file__).parent / "clients"
PACKAGES = {
    "openai": ["openai"],
    "curl": [],
    "smolagents": ["smolagents[openai]"],
    "pydantic_ai": ["pydantic-ai-slim[openai]"],
    "openai_agents": ["openai-agents"],
    "autogen": ["autogen-agentchat", "autogen-ext[openai]"],
    "langgraph": ["langgraph", "langchain-openai"],
    "llm": ["llm"],
    "crewai": ["crewai"],
    "aider": ["aider-chat"],
}
LLAMA = "llama-cpp-python==0.3.36"
PATIENCE_S = 900


def installed(folder: Path, name: str) -> Path:
    """The Python of the environment for this client; it is made if it is not there."""
    python = folder / name / "bin" / "python"
    if not python.exists():
        venv.create(folder / name, with_pip=True)
        if PACKAGES[name]:
            subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES[name]], check=True)
    return python


def built_llama_server(folder: Path) -> Path:
    found = list(folder.glob("llama_cpp_python-*/vendor/llama.cpp/build/bin/llama-server"))
    if found:
        return found[0]
    download: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-binary",
        "llama-cpp-python",
        "-d",
        folder,
        LLAMA,
    ]
    subprocess.run(download, check=True)
    with tarfile.open(next(folder.glob("llama_cpp_python-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    [sources] = folder.glob("llama_cpp_python-*/vendor/llama.cpp")
    wanted = ["-DCMAKE_BUILD_TYPE=Release", "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF"]
    subprocess.run(["cmake", "-S", sources, "-B", sources / "build", *wanted], check=True)
    subprocess.run(["cmake", "--build", sources / "build", "--target", "llama-server", "-j", str(os.cpu_count())], check=True)
    return sources / "build" / "bin" / "llama-server"


@contextmanager
def serving(command: list[str], folder: Path) -> Iterator[Recorder]:
    """The server that `command` starts at the port that is added to it, behind a recorder."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)], stdout=log, stderr=log, env={**os.environ, "RELAYLITE_HOME": str(folder / "home")}
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process)
        recorder = Recorder(port)
        yield recorder
        recorder.close()
    finally:
        process.terminate()
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
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


def last_request(python: Path, name: str, command: list[str], folder: Path, max_tokens: int) -> Recorded | str:
    """What the program's last request came to, or the end of what it said when it failed."""
    shutil.rmtree(folder / "home", ignore_errors=True)  # nothing is taken over from an earlier client
    with serving(command, folder) as recorder:
        environ = {**os.environ, "BASE_URL": recorder.url, "MODEL": "local", "MAX_TOKENS": str(max_tokens)}
        try:
            done = subprocess.run(
                [python, PROGRAMS / f"{name}_client.py"], env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"not done after {PATIENCE_S} s"
        answered = [request for request in recorder.requests if request.status == 200 and request.prompt_tokens]
    if done.returncode or len(answered) < 2:
        return f"{len(answered)} answers; {(done.stderr.strip() or done.stdout.strip() or 'it said nothing').splitlines()[-1][:200]}"
    return answered[-1]


def shown(name: str, server: str, result: Recorded | str, against: Recorded | str | None) -> str:
    if isinstance(result, str):
        return f"{name:<14} {server:<13} {result}"
    share = f"{result.cached / result.prompt_tokens:4.0%}"
    ratio = f"{against.prompt_ms / result.prompt_ms:6.1f}x" if isinstance(against, Recorded) and result.prompt_ms else ""
    return f"{name:<14} {server:<13} {result.prompt_tokens:>6} tokens, {share} taken over, {result.prompt_ms:8.0f} ms {ratio}"


def options_of() -> argparse.Namespace:
    parser = plain_parser_of(__doc__ or "")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--clients", nargs="+", choices=PACKAGES, default=list(PACKAGES))
    parser.add_argument("--model", default="default")
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--max-tokens", type=int, default=350)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--llama-server", type=Path)
    parser.add_argument("--no-llama-server", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = options_of()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    model = str(resolve_model(options.model))
    threads = ["--threads", str(options.threads)]
    commands = {"relaylite": [sys.executable, "-m", "relaylite", "serve", "--model", model, "--ctx", str(options.ctx), *threads]}
    if not options.no_llama_server:
        server = options.llama_server or built_llama_server(folder)
        commands = {
            "llama-server": [str(server), "-m", model, "-c", str(options.ctx), "-np", "1", "--cache-reuse", "32", "--jinja", *threads],
            **commands,
        }
    for name in options.clients:
        python = installed(folder, name)
        results: dict[str, Recorded | str] = {}
        for server_name, command in commands.items():
            results[server_name] = last_request(python, name, command, folder, options.max_tokens)
            print(
                shown(name, server_name, results[server_name], results.get("llama-server") if server_name == "relaylite" else None),
                flush=True,
            )
    print(json.dumps({"model": Path(model).name, "ctx": options.ctx, "max_tokens": options.max_tokens}))


if __name__ == "__main__":
    main()
