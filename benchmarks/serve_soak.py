"""Many clients on `relaylite serve` for some minutes: is anything lost or mixed, and do memory, files and threads stay as they were?

    python benchmarks/serve_soak.py [--minutes 10] [--clients 8] [--seed 0] [--model MODEL] [--threads N] [--ctx 2048] [--parallel N]

The script starts a server of its own, with a store of 64 MB in memory and 256 MB on disk. Each client has a marker of its own. It asks,
at random and in all dialects, for answers that can only consist of that marker: a text that repeats the marker is gone on with, or the
marker's token is favoured. Between these it leaves streams half read, resets connections and sends half requests. One more client asks for
a short answer every two seconds, and measures its time to first token. A line every 15 s tells of the server's memory, open files and
threads. At the end stands what went wrong; the exit code is 1 if there was anything.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
from opened import parser_of

WORDS = ("river", "stone", "lamp", "green", "letter", "cloud", "bread", "window", "paper", "music", "winter", "garden", "market", "horse")
LEAVE = ("leave", "reset", "half")
WHOLE = ("copy", "copy stream", "favour", "favour stream", "message", "response", "native", "several")


class Client:
    """Asks until `ends_at`. `done` counts requests by kind, `wrong` says what was not as it should be."""

    def __init__(self, number: int, port: int, seed: int, ends_at: float) -> None:
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._word, self._marker = WORDS[number % len(WORDS)], f"{4000 + 37 * number}"
        self._port, self._random, self._ends_at = port, random.Random(seed * 1000 + number), ends_at
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600)
        [self._token] = self._post("/tokenize", {"content": f" {self._word}"}).json()["tokens"]
        self.thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        with closing(self._http):
            while time.monotonic() < self._ends_at:
                kind = self._random.choice(WHOLE + LEAVE)
                try:
                    self._ask(kind)
                except (httpx.HTTPError, OSError, KeyError, ValueError) as error:
                    self.wrong.append(f"{kind}: {type(error).__name__}: {error}")
                self.done[kind] += 1

    def _ask(self, kind: str) -> None:
        if kind == "copy":
            self._expect_copy(self._post("/v1/completions", self._copying()).json()["choices"][0]["text"])
        elif kind == "copy stream":
            self._expect_copy("".join(each["choices"][0]["text"] for each in self._events("/v1/completions", self._copying())))
        elif kind == "native":
            self._expect_copy(self._post("/completion", self._copying()).json()["content"])
        elif kind == "favour":
            self._expect_word(self._post("/v1/chat/completions", self._favouring()).json()["choices"][0]["message"]["content"])
        elif kind == "several":
            for choice in self._post("/v1/chat/completions", {**self._favouring(), "n": 2}).json()["choices"]:
                self._expect_word(choice["message"]["content"])
        elif kind == "favour stream":
            events = self._events("/v1/chat/completions", self._favouring())
            self._expect_word("".join(each["choices"][0]["delta"].get("content", "") for each in events))
        elif kind == "message":
            self._expect_word(self._post("/v1/messages", self._favouring()).json()["content"][0]["text"])
        elif kind == "response":
            asked = self._favouring()
            asked["input"] = asked.pop("messages")
            self._expect_word(self._post("/v1/responses", asked).json()["output"][0]["content"][0]["text"])
        else:
            self._leave(kind)

    def _copying(self) -> dict[str, Any]:
        """A text that is nothing but the marker; the model goes on with it."""
        return {"prompt": f"{self._marker}, " * self._random.randint(20, 60), "max_tokens": self._random.randint(8, 60)}

    def _favouring(self) -> dict[str, Any]:
        """Many words to read, the answer is one word again and again."""
        text = " ".join(self._random.choices(WORDS, k=self._random.randint(5, 250)))
        messages = [{"role": "user", "content": f"{self._marker}. {text}"}]
        return {"messages": messages, "max_tokens": self._random.randint(1, 60), "logit_bias": {str(self._token): 100}}

    def _expect_copy(self, text: str) -> None:
        if not (f"{self._marker}, " * 100).startswith(text.lstrip()) or not text.strip():
            self.wrong.append(f"copy: {text!r} instead of {self._marker}")

    def _expect_word(self, text: str) -> None:
        if set(text.split()) != {self._word}:
            self.wrong.append(f"favour: {text!r} instead of {self._word}")

    def _post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return self._http.post(path, json=body).raise_for_status()

    def _events(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        with self._http.stream("POST", path, json={**body, "stream": True}) as answer:
            answer.raise_for_status()
            data = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
        if data[-1:] != ["[DONE]"]:
            raise ValueError(f"the stream ended with {data[-1:]}")
        yield from map(json.loads, data[:-1])

    def _leave(self, kind: str) -> None:
        """Go away in the middle of an answer, at once, or in the middle of a request."""
        body = {**self._favouring(), "max_tokens": 400}
        if kind == "leave":
            with self._http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as answer:
                for n, _ in enumerate(answer.iter_raw()):
                    if n >= self._random.randint(0, 30):
                        break
            return
        content = json.dumps(body).encode()
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(content)}\r\n\r\n"
        whole = head.encode() + content
        with closing(socket.create_connection(("127.0.0.1", self._port), timeout=10)) as raw:
            raw.sendall(whole if kind == "reset" else whole[: self._random.randrange(len(whole))])
            time.sleep(self._random.random())
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing sends a reset


class Watch:
    """What the server's process uses, from /proc."""

    def __init__(self, pid: int) -> None:
        self._proc = Path(f"/proc/{pid}")

    def figures(self) -> tuple[float, int, int]:
        """Memory in MB, open files, threads."""
        status = (self._proc / "status").read_text()
        kb, threads = (int(re.findall(rf"{name}:\s+(\d+)", status)[0]) for name in ("VmRSS", "Threads"))
        return kb / 1024, len(list((self._proc / "fd").iterdir())), threads


@contextmanager
def served(args: Any, home: str) -> Iterator[tuple[int, int]]:
    """Process id and port of a server."""
    command = [sys.executable, "-m", "relaylite", "serve", "--port", "0", "--model", args.model, "--ctx", str(args.ctx)]
    command += ["--threads", str(args.threads)] if args.threads else []
    command += ["--parallel", str(args.parallel)] if args.parallel else []
    limits = {"RELAYLITE_STORE_RAM": "64MB", "RELAYLITE_STORE_DISK": "256MB"}
    server = subprocess.Popen(command, env={**os.environ, "RELAYLITE_HOME": home, **limits}, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        said = ""
        while not (port := re.search(r"serving .* at http://[^:]+:(\d+)/v1", said)):
            line = server.stderr.readline()
            if not line:
                raise SystemExit(f"the server did not start: {said}")
            said += line
        threading.Thread(target=_pass_on, args=(server.stderr,), daemon=True).start()
        yield server.pid, int(port[1])
    finally:
        server.terminate()
        server.wait(30)


def _pass_on(lines: Any) -> None:
    for line in lines:
        print(f"server: {line}", end="", file=sys.stderr, flush=True)


def first_token_s(http: httpx.Client, n: int) -> float:
    """Of a short request."""
    begun = time.monotonic()
    body = {"messages": [{"role": "user", "content": f"Say the number {n}."}], "max_tokens": 1}
    http.post("/v1/chat/completions", json=body).raise_for_status()
    return time.monotonic() - begun


def main() -> None:
    parser = parser_of(__doc__ or "")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ctx", type=int, default=2048)
    parser.add_argument("--parallel", type=int)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, served(args, home) as (pid, port):
        begun = time.monotonic()
        ends_at = begun + 60 * args.minutes
        clients = [Client(number, port, args.seed, ends_at) for number in range(args.clients)]
        for client in clients:
            client.thread.start()
        waits: list[float] = []
        watch, seen, told = Watch(pid), [], begun
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as http:
            while time.monotonic() < ends_at:
                waits.append(first_token_s(http, len(waits)))
                time.sleep(2)
                if time.monotonic() >= told + 15:
                    told = time.monotonic()
                    seen.append(watch.figures())
                    mb, files, threads = seen[-1]
                    print(f"{told - begun:5.0f} s: {mb:.0f} MB, {files} files, {threads} threads, {max(waits):.2f} s at worst", flush=True)
            for client in clients:
                client.thread.join(300)
            stuck = sum(client.thread.is_alive() for client in clients)
            time.sleep(2)
            totals = http.get("/relay/requests").json()
        wrong = [f"client {number}: {what}" for number, client in enumerate(clients) for what in client.wrong]
        wrong += [f"{stuck} clients got no answer"] if stuck else []
        still = [each["id"] for each in totals["requests"] if each["state"] in ("queued", "prefill", "writing")]
        wrong += [f"still there: {still}"] if still else []
        print("requests:", dict(sum((client.done for client in clients), Counter())))
        print("totals of the server:", totals["totals"])
        print(f"short requests: {len(waits)}, median {sorted(waits)[len(waits) // 2]:.2f} s, worst {max(waits):.2f} s")
        third = max(len(seen) // 3, 1)
        for i, name in enumerate(("MB", "files", "threads")):
            first, last = (max(each[i] for each in part) for part in (seen[:third], seen[-third:]))
            print(f"{name}: {first:.0f} in the first third, {last:.0f} in the last")
        print(f"{len(wrong)} went wrong", *wrong[:20], sep="\n")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
