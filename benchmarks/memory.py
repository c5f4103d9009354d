"""Resident memory over many chains in one process.

    python benchmarks/memory.py [--model FILE] [--chains 100] [--max-tokens 48] [--store-mb 64] [--threads 2]

Every chain has a task of its own, so nothing repeats and the row store fills up to its budget. Prints the curve, and the growth from
the 20th chain to the last.
"""

from __future__ import annotations

import argparse

from relaylite import Relay
from relaylite.bench.figures import Figure, Series, text
from relaylite.process import resident_bytes

WARM_UP = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--store-mb", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    held: list[float] = []
    with Relay(options.model, policy="relay", n_ctx=2048, n_threads=options.threads, store_bytes=options.store_mb << 20) as relay:
        for number in range(options.chains):
            chain = relay.chain(["plan", "code", "review"], sampling={"max_tokens": options.max_tokens})
            chain.run(f"Write function number {number}: it adds {number} to each element of a list and sorts the result.")
            held.append(resident_bytes() / 1e6)
            print(f"chain {number + 1:3d}: {held[-1]:.1f} MB resident, {relay.memory().store_bytes / 1e6:.1f} MB of rows", flush=True)
    curve = Series("resident", tuple((float(i), mb) for i, mb in enumerate(held, 1)), is_line=False)
    print("\n".join(text(Figure("Resident memory in MB", "chains", "MB", (curve,)))))
    if len(held) > WARM_UP:
        print(f"from chain {WARM_UP} to {len(held)}: {held[-1] - held[WARM_UP - 1]:+.1f} MB")


if __name__ == "__main__":
    main()
