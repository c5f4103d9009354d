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
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from relaylite.engine.engine import Engine, EngineOptions
from relaylite.gguf.catalog import resolve_model
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, RELAY, Policy
from relaylite.reuse.rows import Rows, Tokens
from relaylite.store import Store
from relaylite.store.codec import CODECS

BEFORE, AFTER = 137, 8
STATES = ("warm first", "warm beside", "cold first", "cold beside", "ahead")
PLENTY = 1 << 40


@dataclass
class Times:
    plan_ms: list[float] = field(default_factory=list)
    place_ms: list[float] = field(default_factory=list)
    sweep_ms: list[float] = field(default_factory=list)
    total_ms: list[float] = field(default_factory=list)

    def line(self, name: str, reference_ms: list[float]) -> str:
        plan, place, sweep, total = (float(np.median(ms)) for ms in (self.plan_ms, self.place_ms, self.sweep_ms, self.total_ms))
        low, middle, high = np.quantile(np.divide(self.total_ms, reference_ms), [0.25, 0.5, 0.75])
        return f"{name:18} {plan:8.1f} {place:8.1f} {sweep:8.1f} {total:8.1f}  {middle:6.3f} ({low:.3f} to {high:.3f})"


def measure(engine: Engine, store: Store, prompt: Tokens, policy: Policy, times: Times, *, is_whole_first: bool) -> None:
    """One prefill of `prompt` on an empty sequence."""
    engine.use(engine.profile)
    started = time.perf_counter()
    plan = make_plan(prompt, store, policy)
    for segment in plan.segments:
        if is_whole_first and segment.rows is not None:
            segment.rows.bring()
    planned = time.perf_counter()
    prefill = engine.prefill(plan, lambda _: None)
    ended = time.perf_counter()
    if policy is not FULL and plan.count(Kind.SPAN) < len(prompt) - BEFORE - AFTER:
        raise SystemExit("the text was not found in the store")
    times.plan_ms.append((planned - started) * 1e3)
    times.place_ms.append(prefill.place_ms)
    times.sweep_ms.append(prefill.repair_ms + prefill.suffix_ms)
    times.total_ms.append((ended - started) * 1e3)


def drop_pages(folder: Path) -> None:
    """Have the system forget what it holds of the files, so that they are read from the disk."""
    for path in folder.glob("*.rows"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def report(engine: Engine, rows: Rows, prompt: Tokens, options: argparse.Namespace, folder: Path) -> None:
    layout, forms = engine.layout, options.forms.split(",")
    memory = Store(layout, PLENTY)
    memory.put(rows)
    for form in forms:
        store = Store(layout, PLENTY, folder=folder / form, codec=CODECS[form])
        store.put(rows)
        store.close()
    times: dict[str, Times] = {"full": Times()} if options.full else {}
    times["memory"] = Times()
    times |= {f"{form} {state}": Times() for form in forms for state in options.states.split(",")}
    for number in range(options.rounds):
        names = list(times)
        for name in [*names[number % len(names) :], *names[: number % len(names)]]:  # so that no way always comes behind the same one
            form, _, state = name.partition(" ")
            store = memory if not state else Store(layout, PLENTY, folder=folder / form)
            if state.startswith("cold"):
                drop_pages(folder / form)
            if state == "ahead":
                store.prefetch(rows.tokens)
            policy = FULL if name == "full" else RELAY
            measure(engine, store, prompt, policy, times[name], is_whole_first=state.endswith("first"))
    print(f"{len(rows)} tokens, {rows.n_bytes / 1e6:.0f} MB, medians of {options.rounds}")
    print("rows from           plan ms  place ms sweep ms total ms  × memory (quartiles)")
    for name, own in times.items():
        print(own.line(name, times["memory"].total_ms))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--tokens", default="1000,2000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--forms", default=",".join(CODECS))
    parser.add_argument("--states", default=",".join(STATES))
    parser.add_argument("--full", action="store_true", help="a full prefill, too")
    options = parser.parse_args()

    lengths = [int(n) for n in options.tokens.split(",")]
    engine = Engine.open(resolve_model(options.model), EngineOptions(n_ctx=max(lengths) + 1024, n_threads=options.threads))
    for n in lengths:
        random = np.random.default_rng(0).integers(100, engine.info.n_vocab - 100, n + BEFORE + AFTER).astype(np.int32)
        text, before, after = np.split(random, [n, n + BEFORE])
        engine.use(engine.profile)
        engine.prefill(make_plan(text, Store(engine.layout, 0), FULL), lambda _: None)
        rows = engine.harvest("writer")
        with tempfile.TemporaryDirectory() as folder:
            report(engine, rows, np.concatenate([before, text, after]), options, Path(folder))
    engine.close()


if __name__ == "__main__":
    main()
