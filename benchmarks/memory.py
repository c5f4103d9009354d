"""Resident memory over many chains in one process, and over many opened and closed models: both should be flat after a warm-up.

    python benchmarks/memory.py [--model MODEL] [--chains 300] [--opens 40] [--max-tokens 8] [--store-bytes 50000000] [--threads N]
        [--json] [--keep]

Every chain is a conversation of its own: three agents, each after the first relays the task's rows. The store is soon full, so that what
still grows is lost.
`--json` prints the document, `--keep` keeps it in benchmarks/measured/memory.json. "heap" is what malloc has given out and not got back
(glibc).
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import sys
from pathlib import Path
from typing import Any

from keeping import keep
from opened import parser_of

from relaylite import Relay
from relaylite.bench import machine
from relaylite.machine.resources import resident_bytes

WARM_UP = 20  # chains


class _MallInfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]


def heap_bytes() -> int:
    """Given out by malloc, mapped blocks included; 0 where it does not say."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        return 0
    mallinfo.restype = _MallInfo
    info = mallinfo()
    return int(info.uordblks + info.hblkhd)


def n_files() -> int:
    folder = Path("/proc/self/fd")
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


class Curve:
    """Megabytes after each round, and open files before and after all of them."""

    def __init__(self) -> None:
        self.files = [n_files(), 0]
        self.resident_mb: list[float] = []
        self.heap_mb: list[float] = []

    def note(self, what: str) -> None:
        gc.collect()
        self.resident_mb.append(round(resident_bytes() / 1e6, 1))
        self.heap_mb.append(round(heap_bytes() / 1e6, 1))
        if sys.stderr.isatty():
            print(f"\r{len(self.resident_mb)} {what}, {self.resident_mb[-1]} MB", end="", file=sys.stderr)

    def document(self, warm_up: int, **more: Any) -> dict[str, Any]:
        curves = {"resident": self.resident_mb, "heap": self.heap_mb}
        growth = {name: round(curve[-1] - curve[warm_up - 1], 1) for name, curve in curves.items()}
        return {**curves, "warm_up": warm_up, "growth": growth, "files": [self.files[0], n_files()], **more}


def over_chains(args: argparse.Namespace) -> dict[str, Any]:
    curve, n_relayed = Curve(), 0
    sampling, threads = {"max_tokens": args.max_tokens, "temperature": 0}, args.threads
    with Relay(args.model, policy="relay", n_ctx=1024, n_threads=threads, sampling=sampling, store_bytes=args.store_bytes) as relay:
        for number in range(args.chains):
            words = " ".join(str(number * 37 + i * i) for i in range(16))
            result = relay.chain(["plan", "code", "review"]).run(f"Sort list {number} in place, whatever it holds: {words}.")
            n_relayed += sum(turn.metrics.span_tokens for turn in result.turns)
            curve.note("chains")
    return curve.document(min(WARM_UP, args.chains), relayed_tokens=n_relayed, store_bytes=args.store_bytes, max_tokens=args.max_tokens)


def over_opens(args: argparse.Namespace) -> dict[str, Any]:
    curve = Curve()
    for _ in range(args.opens):
        with Relay(args.model, n_ctx=512, n_threads=args.threads, sampling={"max_tokens": 1}, store_bytes=10**6) as relay:
            relay.chain(["plan"]).run("Sort.")
        curve.note("opens")
    return curve.document(max(args.opens // 2, 1))


def grown(name: str, curve: dict[str, Any]) -> str:
    growth, (before, after) = curve["growth"], curve["files"]
    n, warm_up = len(curve["resident"]), curve["warm_up"]
    return f"{name} {warm_up} to {n}: resident {growth['resident']:+.1f} MB, heap {growth['heap']:+.1f} MB, open files {before} to {after}"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--chains", type=int, default=300)
    parser.add_argument("--opens", type=int, default=40)
    parser.add_argument("--max-tokens", type=int, default=8)
    parser.add_argument("--store-bytes", type=int, default=50_000_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    about = {"command": f"python benchmarks/memory.py --chains {args.chains} --opens {args.opens}", "machine": machine.machine()}
    document: dict[str, Any] = {**about, "versions": machine.versions(), "chains": over_chains(args), "opens": over_opens(args)}
    if args.keep:
        keep("memory", document)
    print(json.dumps(document) if args.json else "\n".join(grown(name, document[name]) for name in ("chains", "opens")))


if __name__ == "__main__":
    main()
