"""Agent frameworks on `relaylite serve` and on llama-server: what the agent that reads waits for, and what was taken over for it.

    python benchmarks/serve_clients.py --folder FOLDER [--clients NAME …] [--rounds N] [--model FILE] [--out FILE]

Each framework is installed from PyPI into an environment of its own in FOLDER, and runs its program of `benchmarks/clients`: one agent
writes a plan, another one reads it. llama-server is built in FOLDER from the sources that llama-cpp-python brings (half an hour on two
cores), unless one is given; it runs with `--cache-reuse 32`. The servers are started anew for each run, on the same model and with the
same context, and take turns. The figures are those of the last request of each program, the time to first token is the median over the
rounds, and beside it stands how much shorter it is than that of the first server. `of the answer`: how much of the first agent's answer,
as it stands in the second one's prompt, was taken over. With a name that fails stands the end of what it said.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import venv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path
from statistics import median
from typing import Any

from recorder import Recorded, Recorder
from servers import PATIENCE_S, commands_of, count_tokens, post, servers_parser_of, serving

PROGRAMS = Path(__file__).parent / "clients"
OPENAI = ["openai"]
PACKAGES = {
    "openai": OPENAI,
    "openai_json": OPENAI,
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


@dataclass(frozen=True)
class Reading:
    """The last request of a program. `quoted`: tokens of the upstream answer; `taken`: those of them that were taken over."""

    prompt_tokens: int
    cached: int
    prompt_ms: float
    ttft_ms: float
    quoted: int
    taken: int
    form: str
    load: float


def installed(folder: Path, name: str) -> Path:
    """The Python of the environment for this client; it is made if it is not there."""
    python = folder / name / "bin" / "python"
    if not python.exists():
        venv.create(folder / name, with_pip=True)
        if PACKAGES[name]:
            subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES[name]], check=True)
    return python


def reading(python: Path, name: str, command: list[str], folder: Path, max_tokens: int) -> Reading | str:
    """What the program's last request came to, or the end of what it said when it failed."""
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
            said = done.stderr.strip() or done.stdout.strip() or "it said nothing"
            return f"{len(answered)} answers; {said.splitlines()[-1][:200]}"
        return read(answered[-2], answered[-1], recorder)


def read(writer: Recorded, reader: Recorded, recorder: Recorder) -> Reading:
    prompt: str = post(f"{recorder.upstream}/apply-template", {"messages": reader.asked["messages"]})["prompt"]
    start, end, form = place_of(writer.text, prompt)
    first = count_tokens(recorder.upstream, prompt[:start])
    last = reader.prompt_tokens - count_tokens(recorder.upstream, prompt[end:])
    taken = sum(max(min(stop, last) - max(begin, first), 0) for begin, stop in reader.spans)
    quoted = count_tokens(recorder.upstream, writer.text.strip())
    load = os.getloadavg()[0]
    return Reading(reader.prompt_tokens, reader.cached, reader.prompt_ms, reader.ttft_ms, quoted, min(taken, quoted), form, load)


def place_of(answer: str, prompt: str) -> tuple[int, int, str]:
    """Where the prompt holds the answer: as it is, escaped as JSON, or at least its longest piece."""
    text = answer.strip()
    for form, said in (("verbatim", text), ("JSON", json.dumps(text)[1:-1]), ("JSON", json.dumps(text, ensure_ascii=False)[1:-1])):
        if (start := prompt.find(said)) >= 0:
            return start, start + len(said), form
    match = SequenceMatcher(None, prompt, text, autojunk=False).find_longest_match()
    return match.a, match.a + match.size, f"{match.size / max(len(text), 1):.0%} verbatim"


def row_of(name: str, results: dict[str, list[Reading | str]]) -> dict[str, Any]:
    row: dict[str, Any] = {"client": name}
    for server, found in results.items():
        readings = [each for each in found if isinstance(each, Reading)]
        row[server] = {"failed": [each for each in found if isinstance(each, str)], "readings": [asdict(each) for each in readings]}
        if readings:
            row[server]["ttft_ms"] = median(each.ttft_ms for each in readings)
    return row


def shown(row: dict[str, Any], servers: Sequence[str]) -> str:
    said = []
    for server in servers:
        of_server = row[server]
        for failure in of_server["failed"]:
            said.append(f"{row['client']:<14} {server:<13} FAILED: {failure}")
        if not of_server["readings"]:
            continue
        last = of_server["readings"][-1]
        loads = ", ".join(f"{each['load']:.1f}" for each in of_server["readings"])
        against = row[servers[0]].get("ttft_ms")
        ratio = f" {against / of_server['ttft_ms']:5.1f}x" if against and server != servers[0] else ""
        said.append(
            f"{row['client']:<14} {server:<13} {last['cached']:>5} of {last['prompt_tokens']:>5} tokens taken over; of the answer "
            f"{last['taken']} of {last['quoted']} ({last['form']}); TTFT {of_server['ttft_ms']:7.0f} ms{ratio}; load {loads}"
        )
    return "\n".join(said)


def options_of() -> argparse.Namespace:
    parser = servers_parser_of(__doc__ or "")
    parser.add_argument("--clients", nargs="+", choices=PACKAGES, default=list(PACKAGES))
    parser.add_argument("--max-tokens", type=int, default=350)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write all figures there, as JSON")
    return parser.parse_args()


def main() -> None:
    options = options_of()
    folder = options.folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    commands = commands_of(options)
    document = {"model": options.model, "ctx": options.ctx, "max_tokens": options.max_tokens, "threads": options.threads, "rows": []}
    for name in options.clients:
        python = installed(folder, name)
        results: dict[str, list[Reading | str]] = {server: [] for server in commands}
        for number in range(options.rounds):
            for server, command in list(commands.items())[:: -1 if number % 2 else 1]:
                results[server].append(reading(python, name, command, folder, options.max_tokens))
        document["rows"].append(row_of(name, results))
        print(shown(document["rows"][-1], list(commands)), flush=True)
        if options.out:
            options.out.write_text(json.dumps(document, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
