"""Kills processes that keep a conversation, at random moments, and compares what they said with what is there.

python -m support.killed_chain --rounds 200 --seed 1     # in tests/; a line for every fault, and how many answers were there
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from relaylite import paths
from relaylite.api import Relay
from relaylite.chain.session import Session
from relaylite.events import ChainStarted, Event, TurnFinished
from support.fakes import FakeEngine

NAME = "killed"
LONGEST_S = 1.5


def talk(seed: int) -> None:
    """Send messages for ever, retry and undo now and then, and print every answer as soon as it is finished."""
    rng = random.Random(seed)
    engine = FakeEngine()
    engine.token_delay = 0.0005
    session = Session(NAME)
    relay = Relay(engine=engine, policy="naive", store_bytes=10**7)
    saved = session.saved()
    chain = relay.chain(["plan", "code"]) if saved is None else relay.chain_from_dict(saved)
    chain.session = session

    def tell(event: Event) -> None:
        if isinstance(event, ChainStarted):
            print(json.dumps(chain.rounds[-1].task), flush=True)
        elif isinstance(event, TurnFinished):
            print(json.dumps(event.turn.text), flush=True)

    print(json.dumps("begun"), flush=True)
    for n in range(10**6):
        engine.enqueue(*(f"answer {seed}.{n}.{k} " + "word " * rng.randint(1, 8) for k in range(2)))
        if chain.rounds and rng.random() < 0.3:
            chain.retry(rng.choice([0, 1, None]) if chain.rounds[-1].turns else None)
        events = chain.resume() if chain.rounds and len(chain.rounds[-1].turns) < 2 else chain.stream(f"message {seed}.{n}")
        for event in events:
            tell(event)


def kill_once(seed: int, home: Path) -> tuple[int, list[str]]:
    """How many answers and messages one process told of before it was killed, and those of them that are not there."""
    code = f"from support.killed_chain import talk; talk({seed})"
    environment = os.environ | {paths.HOME_VARIABLE: str(home), "PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = [process.stdout.readline()]
    time.sleep(random.Random(seed).uniform(0.0, LONGEST_S))
    process.kill()
    said += process.stdout.read().splitlines()
    process.wait()
    told = [json.loads(line) for line in said[1:] if line.endswith('"') and len(line) > 1]
    text = (home / "data" / "sessions" / f"{NAME}.json").read_text(encoding="utf-8") if told else "{}"
    kept = json.loads(text)
    turns = [turn["text"] for round in kept.get("rounds", []) for turn in round["turns"]] + [
        turn["text"] for turn in kept.get("answers", [])
    ]
    there = {*turns, *(round["task"] for round in [*kept.get("rounds", []), *kept.get("messages", [])])}
    if kept:
        Relay(engine=FakeEngine(), policy="naive", store_bytes=10**7).chain_from_dict(kept)
    return len(told), [text for text in told if text not in there]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    n_told = n_lost = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            told, lost = kill_once(options.seed + number, Path(folder))
            n_told, n_lost = n_told + told, n_lost + len(lost)
            for text in lost:
                print(f"seed {options.seed + number}: not there: {text}")
    print(f"{options.rounds} processes killed, {n_told} messages and answers told of, {n_lost} lost")
    return 1 if n_lost else 0


if __name__ == "__main__":
    sys.exit(main())
