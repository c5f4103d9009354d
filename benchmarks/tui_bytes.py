"""How many bytes a second the terminal app writes to its terminal while an answer is written: what a slow line has to carry.

    python benchmarks/tui_bytes.py [--rate 14] [--seconds 10] [--size 160x48]

Runs the whole program on a pseudo-terminal with a scripted engine (no model) that writes Markdown at a steady rate, and counts. The
bytes of the screen's rows are told apart by where the cursor was put before them. Prints one JSON document.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from pathlib import Path

from opened import plain_parser_of

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

LETTERS = 4  # of a token, about; the scripted engine's tokens are bytes
PACED = """
import time
from support.fakes import FakeWriter
engine.enqueue({text!r} * 40)
write, began = FakeWriter.__next__, []
def paced(writer):
    began.append(time.monotonic())
    time.sleep(max(0.0, began[0] + len(began) / {rate} - time.monotonic()))
    return write(writer)
FakeWriter.__next__ = paced
"""
CURSOR = re.compile(rb"\x1b\[(\d+);(\d+)H")


def by_row(written: bytes) -> dict[int, int]:
    """Bytes for each row of the screen, from 1 on; row 0 is what stands before the first place."""
    rows: Counter[int] = Counter()
    row, at = 0, 0
    for place in CURSOR.finditer(written):
        rows[row] += place.start() - at
        row, at = int(place[1]), place.start()
    rows[row] += len(written) - at
    return dict(rows)


def measure(rate: float, seconds: float, size: tuple[int, int]) -> dict[str, object]:
    from support.pty_app import PtyApp
    from tui_stream import TEXT

    preparation = PACED.format(text=TEXT, rate=rate * LETTERS)
    app = PtyApp("chat", "--agents", "plan", "--max-tokens", "-1", "--ctx", "20000", preparation=preparation, size=size)
    try:
        app.wait_for("fake")
        time.sleep(2.0)
        app.send("Go on.\r")
        app.wait_for("writing")
        time.sleep(3.0)
        start, before = time.monotonic(), len(app.received)
        time.sleep(seconds)
        written = app.received[before:]
        passed = time.monotonic() - start
        app.send(b"\x11")
        app.wait_end()
    finally:
        app.close()
    rows = sorted(by_row(written).items(), key=lambda item: -item[1])
    return {
        "size": list(size),
        "tokens_per_s": rate,
        "bytes_per_s": round(len(written) / passed),
        "bytes_per_s_of_the_dearest_rows": {row: round(n / passed) for row, n in rows[:6]},
    }


def main() -> None:
    parser = plain_parser_of(__doc__)
    parser.add_argument("--rate", type=float, default=14.0, help="tokens of four characters each second")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--size", help="columns x rows, such as 160x48; else two usual ones")
    options = parser.parse_args()
    sizes = [tuple(int(part) for part in options.size.split("x"))] if options.size else [(80, 24), (160, 48)]
    print(json.dumps({"rows": [measure(options.rate, options.seconds, (size[0], size[1])) for size in sizes]}, indent=1))


if __name__ == "__main__":
    main()
