"""What the terminal app costs while a model writes: share of one core, and how long a key press takes to be shown.

    python benchmarks/tui_stream.py [--tokens 2000] [--rate 200] [--model default]

A scripted engine (no model) writes Markdown at a steady rate into the headless app; keys are typed meanwhile. With --model, keys are
typed while that model loads, prefills and writes. The figures include Textual's own work of layout and rendering, and not the
terminal's. Prints one JSON document.
"""

from __future__ import annotations

import asyncio
import json
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from opened import plain_parser_of

if TYPE_CHECKING:
    from relaylite.events import TextDelta
    from relaylite.tui.app import RelayApp

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

TEXT = """## A plan

First *think* about the input, then **write** the code. A list of what matters:

1. read both lists with two indices, `i` and `j`
2. take the smaller head each time and move on
3. append what is left of either list

```python
def merge(a, b):
    i = j = 0
    out = []
    while i < len(a) and j < len(b):
        out.append(a[i] if a[i] <= b[j] else b[j])
    return out + a[i:] + b[j:]
```

It walks both lists once, so the time it takes grows with their length and not with its square.

"""


class Writer:
    """Writes `n` pieces of about four characters, `rate` a second, as an engine's thread would."""

    def __init__(self, n: int, rate: float) -> None:
        self.n, self.rate = n, rate

    def run(self, put: Callable[[TextDelta], None]) -> None:
        from relaylite.events import TextDelta

        text = TEXT * (self.n * 4 // len(TEXT) + 1)
        start = time.perf_counter()
        for i in range(self.n):
            delay = start + i / self.rate - time.perf_counter()
            if delay > 0:
                time.sleep(delay)
            put(TextDelta("plan", text[4 * i : 4 * i + 4], i + 1))


async def measure(n: int, rate: float, size: tuple[int, int]) -> dict[str, object]:
    from support.app_driver import scripted_app, until

    from relaylite.events import ChainStarted, Phase, TurnStarted

    app = scripted_app(agents=["plan"])
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.state.info is not None)
        put = app.engine.reports.put
        for report in (ChainStarted(("plan",), "relay", 0), TurnStarted("plan", 0, ()), Phase("write")):
            put(report)
        await pilot.pause(0.3)
        idle = await _cost(asyncio.sleep(2.0))
        writing = asyncio.create_task(asyncio.to_thread(Writer(n, rate).run, put))
        cost = await _cost(writing)
        await until(pilot, lambda: app.state.current is not None and app.state.current.n_tokens == n)
        writing = asyncio.create_task(asyncio.to_thread(Writer(n, rate).run, put))
        delays = await _typing(app, writing)
        await until(pilot, lambda: app.state.current is not None and app.state.current.n_tokens == n)
    app.engine.close(5.0)
    return {
        "size": list(size),
        "tokens": n,
        "tokens_per_s": rate,
        "core_share": round(cost - idle, 3),
        "core_share_idle": round(idle, 3),
        **_spread(delays),
    }


async def _cost(work: Awaitable[object]) -> float:
    """CPU seconds of this process for each second that `work` takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    await work
    return (time.process_time() - cpu) / (time.perf_counter() - wall)


async def _typing(app: RelayApp, writing: asyncio.Task[None]) -> list[float]:
    """Delays of keys typed until `writing` is done."""
    delays: list[float] = []
    app.main.parts.input.focus()
    while not writing.done():
        delays.append(await _key(app))
    return delays


async def _key(app: RelayApp) -> float:
    """Seconds from sending a key to its character being in the input's rendered line."""
    from textual import events

    app.main.parts.input.clear()
    await asyncio.sleep(0.11)
    start = time.perf_counter()
    app.post_message(events.Key("x", "x"))
    while "x" not in app.main.parts.input.render_line(0).text:
        await asyncio.sleep(0.001)
    return time.perf_counter() - start


async def measure_model(model: str) -> list[dict[str, object]]:
    """Key delays while a real model loads, prefills a long message, and writes."""
    from relaylite.chain.agents import BUILT_IN
    from relaylite.reuse.policies import RELAY
    from relaylite.settings.settings import Settings
    from relaylite.tui.app import RelayApp
    from relaylite.tui.engine.opener import ModelOpener
    from relaylite.tui.engine.thread import EngineThread
    from relaylite.tui.files import History
    from relaylite.tui.run_state import RunState

    settings = Settings(model=model, max_tokens=100)
    agents = BUILT_IN[:2]
    app = RelayApp(settings, EngineThread(ModelOpener(settings), agents, RELAY), RunState(agents, RELAY, {}), History(None))
    delays: dict[str, list[float]] = {"loading": [], "prefill": [], "writing": []}
    async with app.run_test(size=(120, 40)) as pilot:
        while app.state.info is None:
            delays["loading"].append(await _key(app))
        app.main.parts.input.load_text("Sum up: " + "a river runs to the sea and the rain comes back. " * 60)
        await pilot.press("enter")
        while app.state.is_busy:
            state = app.state.current.state if app.state.current else "reusing"
            delays["writing" if state == "writing" else "prefill"].append(await _key(app))
    app.engine.close(10.0)
    return [{"while": name, **_spread(values)} for name, values in delays.items() if values]


def _spread(delays: list[float]) -> dict[str, object]:
    delays = sorted(delays)
    return {
        "key_ms_median": round(1000 * statistics.median(delays), 1),
        "key_ms_p99": round(1000 * delays[int(0.99 * (len(delays) - 1))], 1),
        "key_ms_max": round(1000 * delays[-1], 1),
        "keys": len(delays),
    }


def main() -> None:
    parser = plain_parser_of(__doc__)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--model", help="measure with this model instead")
    options = parser.parse_args()
    if options.model:
        print(json.dumps({"model": options.model, "rows": asyncio.run(measure_model(options.model))}, indent=1))
        return
    rows = [asyncio.run(measure(options.tokens, options.rate, size)) for size in ((80, 24), (160, 48))]
    print(json.dumps({"python": platform.python_version(), "machine": platform.machine(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
