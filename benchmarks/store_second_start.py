"""How soon a conversation goes on in a new process, against computing all of it again.

    python benchmarks/store_second_start.py [--model MODEL] [--tokens 2000] [--rounds 3] [--threads N]

`relaylite chat --session` keeps a conversation of about so many tokens and ends. Then, in turn and each in a process of its own, it goes on
from what is on disk (policy `relay`, the default) and by policy `full`. Measured from outside, from sending the next message to a
model that is loaded until the first character of the answer arrives.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from opened import in_turn, parser_of

from relaylite.bench.statistics import spread
from relaylite.metrics import Stopwatch
from relaylite.paths import HOME_VARIABLE

WORDS = ("river", "stone", "lamp", "green", "letter", "cloud", "seven", "bread", "window", "paper", "music", "winter", "garden", "market")
TOKENS_A_WORD = 1.1  # of these, in most vocabularies; the real number is printed
HISTORY = re.compile(r"prompt (\d+) tokens = (\d+) prefix")


class Chat:
    """One process of the chat, its model loaded."""

    def __init__(self, home: Path, arguments: list[str]) -> None:
        command = [sys.executable, "-m", "relaylite", "chat", "--plain", "--session", "long", "--agents", "solve", *arguments]
        self._process = subprocess.Popen(
            command, env=os.environ | {HOME_VARIABLE: str(home)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._send("/help")  # answered once the model is there
        assert self._process.stderr is not None
        while b"/retry" not in self._process.stderr.readline():
            if self._process.poll() is not None:
                raise SystemExit(f"{' '.join(command)} ended")

    def first_character_s(self, message: str) -> float:
        watch = Stopwatch()
        self._send(message)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # the heading
        self._process.stdout.read(1)
        return watch.ms() / 1e3

    def end(self) -> tuple[int, int]:
        """Prompt tokens of the answer, and how many of them were taken over from the history."""
        _, notes = self._process.communicate()
        found = HISTORY.search(notes.decode())
        if self._process.returncode or found is None:
            raise SystemExit(f"the chat failed: {notes.decode().strip()}")
        return int(found[1]), int(found[2])

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()


def goes_on_s(home: Path, arguments: list[str], name: str) -> float:
    """Seconds to the first character in a new process, on a copy of what the first one left."""
    with tempfile.TemporaryDirectory() as folder:
        again = shutil.copytree(home, Path(folder) / "home")
        chat = Chat(again, arguments)
        seconds = chat.first_character_s("Which word came last?")
        n_prompt, n_prefix = chat.end()
    print(f"{name}: {seconds:.2f} s, {n_prefix} of {n_prompt} prompt tokens taken over", flush=True)
    return seconds


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    arguments = ["--model", options.model, "--max-tokens", "8", *(["--threads", str(options.threads)] if options.threads else [])]
    words = random.Random(0).choices(WORDS, k=int(options.tokens / TOKENS_A_WORD))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        first = Chat(home, arguments)
        first.first_character_s(f"Remember these words: {' '.join(words)}.")
        first.end()
        ways = {"disk": arguments, "full": [*arguments, "--policy", "full"]}
        times = in_turn({name: partial(goes_on_s, home, given, name) for name, given in ways.items()}, options.rounds)
    disk, full = (spread(times[name]).median for name in ways)
    ratio = spread([slow / fast for slow, fast in zip(times["full"], times["disk"], strict=True)]).median
    print(f"{disk:.2f} s against {full:.2f} s: {ratio:.1f}× sooner (median of {options.rounds})")


if __name__ == "__main__":
    main()
