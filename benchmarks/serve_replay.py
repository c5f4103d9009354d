"""A recorded session again, with a first line that changes at every request: what is taken over of all that was sent before.

    python benchmarks/serve_replay.py --folder FOLDER --session FILE [--model FILE]

Coding agents put a date or a billing header on top of their system message. A cache of prefixes is lost with it. FILE is a JSON list of
OpenAI's messages; if it is not there, a session is recorded first: questions about this program's own description, answered by the model.
Each request sends one more of the user's messages, and all before it. `known` are the tokens of its prompt behind the first line that
stood in the request before. Both servers get the same requests.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from recorder import Recorder
from servers import commands_of, count_tokens, post, servers_parser_of, serving

Message = dict[str, str]
ROOT = Path(__file__).parents[1]
QUESTIONS = (
    "Which routes answer to the form of OpenAI?",
    "What does the field cache_n say?",
    "Who may use the server, and how is a key given?",
    "What happens when a client hangs up?",
)


def first_line(number: int) -> str:
    return f"x-billing-header: version=2.1.{90 + number}; id={hash_of(number)}; date=2026-06-{number + 1:02}\n"


def hash_of(number: int) -> str:
    return f"{(number + 1) * 2654435761 % 2**32:08x}"


def chat(server: str, messages: list[Message], max_tokens: int) -> str:
    asked = {"model": "local", "messages": messages, "max_tokens": max_tokens, "temperature": 0}
    answer: dict[str, Any] = post(f"{server}/chat/completions", asked)
    return str(answer["choices"][0]["message"]["content"])


def recorded_session(server: str, n_characters: int) -> list[Message]:
    about = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")[:n_characters]
    messages = [{"role": "system", "content": f"You answer questions about this program.\n\n{about}"}]
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": chat(server, messages, 60)})
    return messages


def requests_of(session: list[Message]) -> list[list[Message]]:
    """One for each of the user's messages, all before it included."""
    ends = [i + 1 for i, message in enumerate(session) if message["role"] == "user"]
    return [[{**session[0], "content": first_line(number) + session[0]["content"]}, *session[1:end]] for number, end in enumerate(ends)]


def replayed(recorder: Recorder, requests: list[list[Message]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    known = 0
    for number, messages in enumerate(requests):
        chat(recorder.url, messages, 1)
        seen = recorder.requests[-1]
        prompt: str = post(f"{recorder.upstream}/apply-template", {"messages": messages})["prompt"]
        line = first_line(number)
        first = count_tokens(recorder.upstream, prompt[: prompt.index(line) + len(line)])
        taken = sum(max(end - max(start, first), 0) for start, end in seen.spans)
        tokens = {"prompt_tokens": seen.prompt_tokens, "known": known, "taken": min(taken, known)}
        rows.append({**tokens, "ttft_ms": seen.ttft_ms, "load": os.getloadavg()[0]})
        known = seen.prompt_tokens - first
    return rows


def main() -> None:
    parser = servers_parser_of(__doc__ or "")
    parser.add_argument("--session", type=Path, required=True)
    parser.add_argument("--characters", type=int, default=5000, help="of the description, in a session that is recorded")
    options = parser.parse_args()
    folder = options.folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    commands = commands_of(options)
    if not options.session.exists():
        with serving(commands["relaylite"], folder) as recorder:
            options.session.write_text(json.dumps(recorded_session(recorder.url, options.characters), indent=1), encoding="utf-8")
    requests = requests_of(json.loads(options.session.read_text(encoding="utf-8")))
    for server, command in commands.items():
        with serving(command, folder) as recorder:
            rows = replayed(recorder, requests)
        for row in rows:
            print(
                f"{server:<13} {row['prompt_tokens']:>5} tokens, {row['known']:>5} known, {row['taken']:>5} of them taken over; "
                f"TTFT {row['ttft_ms']:7.0f} ms; load {row['load']:.1f}",
                flush=True,
            )
        known, taken = sum(row["known"] for row in rows), sum(row["taken"] for row in rows)
        print(f"{server:<13} in all {taken} of {known} known tokens taken over: {taken / known:.1%}", flush=True)


if __name__ == "__main__":
    main()
