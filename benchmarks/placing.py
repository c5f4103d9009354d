"""What placing and rotating relayed rows costs against computing them.

    python benchmarks/placing.py [--model FILE] [--tokens 1000] [--rounds 9] [--threads 2]

Rows of so many tokens are taken over to another position (`naive`); prints the median time of that, and of a full prefill of as many
tokens, and their ratio.
"""

from __future__ import annotations

import numpy as np
from opened import in_turn, opened, parser_of, prefilled, random_tokens, timed_ms

from relaylite.bench.statistics import spread
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import NAIVE
from relaylite.store import Store

SHIFT = 137  # tokens that come before in the new prompt


def main() -> None:
    parser = parser_of(__doc__, threads=2)
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with opened(options.model, options.tokens + 1024, options.threads) as engine:
        text, before = np.split(random_tokens(engine, options.tokens + SHIFT), [options.tokens])
        store = Store(engine.layout, 1 << 40)
        prefilled(engine, text)
        store.put(engine.harvest("writer"))
        moved = np.concatenate([before, text, before[:8]])
        assert make_plan(moved, store, NAIVE).count(Kind.SPAN) == options.tokens
        ways = {
            "full": lambda: timed_ms(lambda: prefilled(engine, text)),
            "place": lambda: prefilled(engine, moved, store, NAIVE).place_ms,
        }
        times = in_turn(ways, options.rounds)
        n_bytes = store.stats().ram_bytes
    ratio = spread([place / full for place, full in zip(times["place"], times["full"], strict=True)])
    print(f"{options.tokens} tokens, {n_bytes / 1e6:.0f} MB of rows and states")
    print(f"full prefill      {spread(times['full']).median:8.1f} ms")
    print(f"place and rotate  {spread(times['place']).median:8.1f} ms")
    print(f"ratio             {ratio.median:8.2%}  (quartiles {ratio.q1:.2%}–{ratio.q3:.2%})")


if __name__ == "__main__":
    main()
