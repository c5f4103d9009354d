"""Resident memory over many chains in one process, and over many opened and closed models: both should be flat after a warm-up.

    python benchmarks/memory.py [--model MODEL] [--chains 300] [--opens 40] [--max-tokens 8] [--json]

Every chain is a conversation of its own (three agents, relayed). Prints the curve as megabytes after every twentieth chain, the growth
from the twentieth chain to the last, and open file descriptors before and after (Linux).
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from pathlib import Path
from typing import Any

from relaylite import Relay
from relaylite.process import resident_bytes

WARM_UP = 20


def megabytes() -> float:
    gc.collect()
    return round(resident_bytes() / 1e6, 1)


def n_files() -> int:
    folder = Path("/proc/self/fd")
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


def over_chains(args: argparse.Namespace) -> dict[str, Any]:
    curve, files = [], n_files()
    with Relay(args.model, policy="relay", n_ctx=1024, sampling={"max_tokens": args.max_tokens}, store_bytes=args.store_bytes) as relay:
        for number in range(args.chains):
            relay.chain(["plan", "code", "review"]).run(f"Sort the list number {number} in place, whatever it holds.")
            curve.append(megabytes())
            if sys.stderr.isatty():
                print(f"\r{number + 1} chains, {curve[-1]} MB", end="", file=sys.stderr)
    return {"curve_mb": curve[WARM_UP - 1 :: 20], "growth_mb": round(curve[-1] - curve[WARM_UP - 1], 1), "files": [files, n_files()]}


def over_opens(args: argparse.Namespace) -> dict[str, Any]:
    curve, files = [], n_files()
    for _ in range(args.opens):
        with Relay(args.model, n_ctx=512, sampling={"max_tokens": 1}, store_bytes=10**6) as relay:
            relay.chain(["plan"]).run("Sort.")
        curve.append(megabytes())
    half = len(curve) // 2
    return {"curve_mb": curve, "growth_mb": round(curve[-1] - curve[half], 1), "files": [files, n_files()]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--chains", type=int, default=300)
    parser.add_argument("--opens", type=int, default=40)
    parser.add_argument("--max-tokens", type=int, default=8)
    parser.add_argument("--store-bytes", type=int, default=50_000_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    result = {"chains": over_chains(args), "opens": over_opens(args)}
    if args.json:
        print(json.dumps(result))
        return
    for name, found in result.items():
        print(f"{name}: {found['growth_mb']} MB growth, files {found['files'][0]} before and {found['files'][1]} after")
        print("  MB:", *found["curve_mb"])


if __name__ == "__main__":
    main()
