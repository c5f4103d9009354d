"""How long a settling that is going on keeps new work waiting: from the next message to the settling's end, at random moments of it.

python benchmarks/settle_delay.py [--model MODEL] [--words 700] [--trials 12] [--threads N]
"""

from __future__ import annotations

import random
import threading
import time

from opened import parser_of

from relaylite import Relay
from relaylite.bench.statistics import spread

WORDS = ("apples", "pears", "boxes", "shops", "days", "train", "left", "gives", "more", "twice")


def delay_ms(relay: Relay, task: str, moment_s: float) -> float | None:
    """Milliseconds that a message sent so long after the settling's begin waits for it; None if it had ended by then."""
    chain = relay.chain(["plan", "solve"], sampling={"max_tokens": 60, "temperature": 0})
    chain.run(task)
    ended: list[float] = []

    def settle() -> None:
        chain.settle()
        ended.append(time.perf_counter())

    settling = threading.Thread(target=settle)
    settling.start()
    time.sleep(moment_s)
    if not settling.is_alive():
        return None
    sent = time.perf_counter()
    chain.run("And now?")
    settling.join()
    return (ended[0] - sent) * 1e3


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--words", type=int, default=700, help="of the task")
    parser.add_argument("--trials", type=int, default=12)
    options = parser.parse_args()
    chance = random.Random(1)
    delays = []
    with Relay(options.model, n_ctx=4096, n_threads=options.threads, store_bytes=2_000_000_000) as relay:
        for number in range(options.trials):
            task = " ".join(chance.choice(WORDS) for _ in range(options.words)) + f" {number}. How many are left?"
            delays.append(delay_ms(relay, task, chance.uniform(0.05, 0.9)))
    measured = [delay for delay in delays if delay is not None]
    if not measured:
        raise SystemExit("every settling had ended before it was interrupted; give more --words")
    print(f"{len(measured)} of {options.trials}: median {spread(measured).median:.1f} ms, longest {max(measured):.1f} ms")


if __name__ == "__main__":
    main()
