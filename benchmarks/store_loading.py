"""What rows that come from disk cost a first token, against the same rows in memory.

    python benchmarks/store_loading.py [--model FILE] [--tokens 1000,2000] [--rounds 5] [--threads 2] [--forms plain,q6-q4]
        [--states "cold first,cold beside"] [--full]

A text of so many tokens lies in the store, and a prompt of 137 other tokens, that text and 8 more is planned and prefilled with policy
`relay`: its rows from memory, then from files of every form. These lie in the system's page cache (warm) or not (cold: the file's pages
are dropped before), and are loaded whole before they are placed (first) or layer by layer beside the sweep (beside), as a turn does it;
or read ahead by `Store.prefetch`, as a chain does while another agent writes (ahead).
Prints medians: planning (search included) with what is loaded first, placing, the sweep, the whole; and of its ratio to that from memory
in the same round the median and the quartiles. With `--full` a full prefill, too.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from opened import in_turn, opened, parser_of, prefilled, random_tokens

from relaylite.bench.statistics import spread
from relaylite.engine.engine import Engine
from relaylite.metrics import Stopwatch
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, RELAY
from relaylite.reuse.rows import Rows, Tokens
from relaylite.store import Store
from relaylite.store.codec import CODECS

BEFORE, AFTER = 137, 8
STATES = ("warm first", "warm beside", "cold first", "cold beside", "ahead")
PLENTY = 1 << 40


@dataclass(frozen=True)
class Times:
    """Milliseconds of one turn."""

    plan: float
    place: float
    sweep: float
    total: float


def drop_pages(folder: Path) -> None:
    """Have the system forget what it holds of the files, so that they are read from the disk."""
    for path in folder.glob("*.rows"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Way:
    """Where the rows of the text come from, and by which policy the prompt is prefilled."""

    def __init__(self, engine: Engine, name: str, memory: Store, folder: Path) -> None:
        self._engine, self._memory = engine, memory
        form, _, self._state = name.partition(" ")
        self._folder = folder / form
        self._policy = FULL if name == "full" else RELAY

    def _store(self, text: Tokens) -> Store:
        if not self._state:
            return self._memory
        store = Store(self._engine.layout, PLENTY, folder=self._folder)
        if self._state.startswith("cold"):
            drop_pages(self._folder)
        if self._state == "ahead":
            store.prefetch(text)
        return store

    def times(self, text: Tokens, prompt: Tokens) -> Times:
        """One prefill of `prompt` into an empty sequence."""
        store = self._store(text)
        self._engine.configure(self._engine.profile)
        watch = Stopwatch()
        plan = make_plan(prompt, store, self._policy)
        for segment in plan.segments:
            if self._state.endswith("first") and segment.rows is not None:
                segment.rows.bring()
        plan_ms = watch.ms()
        prefill = self._engine.prefill(plan, lambda _: None)
        if self._policy is not FULL and plan.count(Kind.SPAN) < len(text):
            raise SystemExit("the text was not found in the store")
        return Times(plan_ms, prefill.place_ms, prefill.repair_ms + prefill.suffix_ms, watch.ms())


def report(engine: Engine, rows: Rows, prompt: Tokens, options: argparse.Namespace, folder: Path) -> None:
    forms = options.forms.split(",")
    memory = Store(engine.layout, PLENTY)
    memory.put(rows)
    for form in forms:
        store = Store(engine.layout, PLENTY, folder=folder / form, codec=CODECS[form])
        store.put(rows)
        store.close()
    names = ["full"] * options.full + ["memory", *(f"{form} {state}" for form in forms for state in options.states.split(","))]
    times = in_turn({name: partial(Way(engine, name, memory, folder).times, rows.tokens, prompt) for name in names}, options.rounds)
    print(f"{len(rows)} tokens, {rows.n_bytes / 1e6:.0f} MB, medians of {options.rounds}")
    print("rows from           plan ms  place ms sweep ms total ms  × memory (quartiles)")
    for name, own in times.items():
        print(line(name, own, times["memory"]))


def line(name: str, own: list[Times], memory: list[Times]) -> str:
    medians = (spread([getattr(times, part) for times in own]).median for part in ("plan", "place", "sweep", "total"))
    ratio = spread([times.total / reference.total for times, reference in zip(own, memory, strict=True)])
    return f"{name:18} {' '.join(f'{ms:8.1f}' for ms in medians)}  {ratio.median:6.3f} ({ratio.q1:.3f} to {ratio.q3:.3f})"


def main() -> None:
    parser = parser_of(__doc__, threads=2)
    parser.add_argument("--tokens", default="1000,2000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--forms", default=",".join(CODECS))
    parser.add_argument("--states", default=",".join(STATES))
    parser.add_argument("--full", action="store_true", help="a full prefill, too")
    options = parser.parse_args()
    lengths = [int(n) for n in options.tokens.split(",")]
    with opened(options.model, max(lengths) + 1024, options.threads) as engine:
        for n in lengths:
            text, before, after = np.split(random_tokens(engine, n + BEFORE + AFTER), [n, n + BEFORE])
            prefilled(engine, text)
            rows = engine.harvest("writer")
            with tempfile.TemporaryDirectory() as folder:
                report(engine, rows, np.concatenate([before, text, after]), options, Path(folder))


if __name__ == "__main__":
    main()
