"""Requests that wait: the one with the fewest tokens to compute first (`completion/order.py`), against first come, first served.

    python benchmarks/serve_order.py [--model MODEL] [--threads N] [--groups 4] [--each 4] [--shared 500] [--rounds 2]

Requests of several groups come at once, one of each group in turn. Those of a group share a document of about so many tokens, and the store
holds the rows of one document and a half. Printed are the tokens computed in all, the mean and the longest time to first token (waiting
included), for both orders in turn.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opened import in_turn, parser_of

from relaylite.api import Relay
from relaylite.bench.statistics import spread
from relaylite.completion import completions
from relaylite.completion.answer import Finished
from relaylite.completion.order import next_of
from relaylite.completion.request import ChatMessage, CompletionRequest
from relaylite.sampling import Sampling

WORDS = ("river", "stone", "lamp", "green", "letter", "cloud", "seven", "bread", "window", "paper", "music", "winter", "garden", "market")


def first_come(waiting: Sequence[Any], _: Callable[[Any], int]) -> Any:
    return waiting[0]


def served(model: str | Path, threads: int | None, order: Any, args: Any) -> tuple[int, float, float]:
    setattr(completions, "next_of", order)  # noqa: B010
    words = random.Random(0)
    documents = [" ".join(words.choices(WORDS, k=args.shared)) for _ in range(args.groups)]
    with Relay(model, n_ctx=2048, n_threads=threads, store_bytes=10**9, n_parallel=1) as probe:
        budget = int(probe.info.kv_bytes_per_token * args.shared * 1.5 * 1.2)
    with Relay(model, n_ctx=2048, n_threads=threads, store_bytes=budget, n_parallel=1) as relay:
        tickets = [
            relay.completions.submit(
                CompletionRequest(
                    (ChatMessage("system", documents[group]), ChatMessage("user", f"Question {number}: what comes behind the lamp?")),
                    sampling=Sampling(max_tokens=4),
                )
            )
            for number in range(args.each)
            for group in range(args.groups)
        ]
        finished = [event for ticket in tickets for event in ticket.events() if isinstance(event, Finished)]
        ttft = [each.metrics.ttft_ms / 1e3 for each in finished]
        return relay.completions.overview().totals.computed_tokens, sum(ttft) / len(ttft), max(ttft)


def main() -> None:
    parser = parser_of(__doc__ or "")
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--each", type=int, default=4)
    parser.add_argument("--shared", type=int, default=500, help="words of a group's document")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    orders = {"first come": first_come, "in place first": next_of}
    found = in_turn({name: lambda o=order: served(args.model, args.threads, o, args) for name, order in orders.items()}, args.rounds)  # type: ignore[misc]
    for name, rounds in found.items():
        computed, mean, longest = zip(*rounds, strict=True)
        print(f"{name:15} {spread(computed)} tokens computed; first token {spread(mean)} s on average, {spread(longest)} s at most")


if __name__ == "__main__":
    main()
