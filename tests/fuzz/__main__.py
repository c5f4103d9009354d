"""Runs fuzzers until the time is over; an episode that fails is named by its seed.

python tests/fuzz cells plans turns conversations headers screens --minutes 10
python tests/fuzz turns --seed 1234        # that episode again
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from fuzz.episodes import FUZZERS, Episode
from relaylite.paths import HOME_VARIABLE


def fuzz(name: str, minutes: float, first: int) -> int:
    """Episodes from seed `first` on; how many were done."""
    deadline, seed = time.monotonic() + 60 * minutes, first
    while time.monotonic() < deadline:
        episode(name, FUZZERS[name], seed)
        seed += 1
    print(f"{name}: {seed - first} episodes from seed {first} on, nothing found", flush=True)
    return seed - first


def episode(name: str, run: Episode, seed: int) -> None:
    """Says the seed before it begins: what is looked for may end the process."""
    print(f"{name} {seed}", end="\r", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[HOME_VARIABLE] = folder
        try:
            run(np.random.default_rng(seed), Path(folder))
        except BaseException as error:
            print(f"\n{name}: seed {seed} failed: {type(error).__name__} {error}", file=sys.stderr, flush=True)
            raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*FUZZERS, []], help="which; all by default")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each of them")
    parser.add_argument("--seed", type=int, help="only this episode")
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    args = parser.parse_args()
    faulthandler.enable()
    logging.disable(logging.WARNING)
    for name in args.names or FUZZERS:
        if args.seed is None:
            fuzz(name, args.minutes, args.first)
        else:
            episode(name, FUZZERS[name], args.seed)


if __name__ == "__main__":
    main()
