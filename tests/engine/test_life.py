"""The life of engines in a process: two at once, dropped, forked, opened again and again; and models that cannot relay."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import llama_cpp as lc
import numpy as np
import pytest
from support.live_engine import LiveEngine, Taken, changed, difference, opened, plan_of
from support.reach import EXPECTED
from support.tiny_models import write_model

from relaylite import Agent, Relay
from relaylite.engine.engine import Engine
from relaylite.engine.held import Held
from relaylite.engine.options import EngineOptions
from relaylite.errors import EngineClosed, NativeError, UsageError
from relaylite.events import Notice
from relaylite.machine.resources import resident_bytes
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, NAIVE, PREFIX, RELAY
from relaylite.reuse.rows import Rows
from relaylite.sampling import Sampling
from relaylite.store import Store

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def one_relay(live: LiveEngine, seed: int = 0) -> np.ndarray:
    live.relay_by(changed({"l_start": 1, "l_det": 1, "l_end": live.n_layer, "max_share": 0.3}))
    return live.logits_of(plan_of(RELAY, live.tokens(30, 1), Taken(live.written(seed=seed), 24), live.tokens(7, 2)))


# two engines


def test_two_engines_used_in_turn_do_not_mix(tiny_path: Path, tmp_path: Path) -> None:
    """Another model, other layers, other rows: each gives what it gives alone."""
    other_path = write_model(tmp_path / "other.gguf", "qwen3", n_layer=2)
    with opened(tiny_path) as a:
        alone_a = one_relay(a)
    with opened(other_path) as b:
        alone_b = one_relay(b)
    with opened(tiny_path) as a, opened(other_path) as b:
        for _ in range(3):
            assert np.array_equal(one_relay(a), alone_a)
            assert np.array_equal(one_relay(b), alone_b)


def test_two_engines_in_two_threads_do_not_mix(tiny_path: Path) -> None:
    with opened(tiny_path) as a, opened(tiny_path) as b:
        alone = [one_relay(a, seed) for seed in range(4)]
        same: dict[str, list[bool]] = {"a": [], "b": []}

        def work(name: str, live: LiveEngine) -> None:
            for seed in range(4):
                same[name].append(np.array_equal(one_relay(live, seed), alone[seed]))

        threads = [threading.Thread(target=work, args=pair) for pair in (("a", a), ("b", b))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert same == {"a": [True] * 4, "b": [True] * 4}


def test_a_cancel_reaches_its_own_engine_alone(tiny_path: Path) -> None:
    with opened(tiny_path) as a, opened(tiny_path) as b:
        b.prefill(plan_of(FULL, b.tokens(9)))
        a.engine.cancel()
        assert len(list(b.engine.generate(Sampling(max_tokens=2)))) > 0


# ends


def test_an_engine_that_is_dropped_is_freed(tiny_path: Path) -> None:
    engine = Engine.open(tiny_path, EngineOptions(n_ctx=256, n_threads=1))
    things = engine._held.things
    context = engine._context
    assert context.is_open and len(things) == 5
    del engine
    gc.collect()
    assert not context.is_open and things == []


def test_an_open_that_fails_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model(tmp_path / "m.gguf", "llama", n_layer=1, template=None)
    closed: list[object] = []
    close = Held.close
    monkeypatch.setattr(Held, "close", lambda held: (closed.extend(held.things), close(held), closed.append(list(held.things))))
    with pytest.raises(UsageError):
        Engine.open(path, EngineOptions(n_threads=1))
    assert len(closed) == 6 and closed[-1] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def _environment() -> dict[str, str]:
    """The tests' modules can be imported, and relaylite from where it is installed."""
    folders = [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def test_a_forked_process_is_refused_and_can_end(tiny_path: Path) -> None:
    """Refused, and neither closing nor dropping waits for threads that were not forked. In a process of its own: pytest has threads."""
    script = """
import os, sys
from pathlib import Path
from support.live_engine import LiveEngine, plan_of
from relaylite.engine.engine import Engine
from relaylite.engine.held import Held
from relaylite.engine.options import EngineOptions
from relaylite.errors import EngineClosed
from relaylite.reuse.policies import FULL
engine = Engine.open(Path(sys.argv[1]), EngineOptions(n_ctx=256, n_threads=2))
live = LiveEngine(engine)
expected = live.full(live.tokens(9))
plan = plan_of(FULL, live.tokens(9))
child = os.fork()
if child == 0:
    try:
        live.prefill(plan)
    except EngineClosed as error:
        print(error, flush=True)
    engine.close()
    del live, engine
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert (live.full(live.tokens(9)) == expected).all()
print("the parent goes on")
"""
    environment = _environment()
    done = subprocess.run(
        [sys.executable, "-c", script, str(tiny_path)], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "the model was loaded before this process was forked; open it again here",
        "the parent goes on",
    ]


def test_a_process_that_ends_without_closing_ends_well(tiny_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from relaylite.engine.engine import Engine
from relaylite.engine.held import Held
from relaylite.engine.options import EngineOptions
from relaylite.sampling import Sampling
from support.live_engine import LiveEngine, plan_of
from relaylite.reuse.policies import FULL
live = LiveEngine(Engine.open(Path(sys.argv[1]), EngineOptions(n_ctx=256, n_threads=2)))
live.prefill(plan_of(FULL, live.tokens(9)))
deltas = live.engine.generate(Sampling())
next(deltas)
"""
    environment = _environment()
    done = subprocess.run(
        [sys.executable, "-c", script, str(tiny_path)], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


# memory


@linux_only
def test_forty_opens_leave_no_memory_and_no_files(tiny_path: Path) -> None:
    """glibc keeps some of what was freed for a while, so the growth of the second half is looked at."""
    sizes, files = [], []
    for _ in range(40):
        with opened(tiny_path, n_ctx=256) as live:
            one_relay(live)
        gc.collect()
        sizes.append(resident_bytes())
        files.append(len(list(Path("/proc/self/fd").iterdir())))
    assert files[-1] == files[5]
    assert sizes[-1] - sizes[20] < 4e6


@linux_only
def test_a_hundred_chains_grow_to_the_stores_budget_and_no_further(tiny_path: Path) -> None:
    """Each chain is another conversation: three agents, relayed, with a store that has room for a few."""
    with opened(tiny_path, n_ctx=512, kv_type="f16") as live:
        live.relay_by(changed({"l_start": 1, "l_det": 1, "l_end": live.n_layer, "max_share": 0.3}))
        store = Store(live.engine.layout, 4_000_000)
        sizes = []
        for number in range(110):
            answers: list[int] = []
            for agent in range(3):
                prompt = live.tokens(12, agent) + live.tokens(20, 1000 + number) + answers + live.tokens(5, 7)
                live.prefill(make_plan(prompt, store, RELAY))
                answer = live.tokens(34, 3 * number + agent)
                live.engine.force(answer)
                store.put(live.engine.harvest(f"agent {agent}"))
                answers += answer
            sizes.append(resident_bytes())
        assert store.stats().ram_bytes <= 4_000_000
    assert sizes[-1] - sizes[55] < 4e6


# models that cannot relay


@pytest.mark.parametrize("arch", ["mamba", "jamba", "qwen2vl", "deepseek2", "gpt2", "minicpm3"])
def test_a_model_that_cannot_relay_runs_a_chain_with_prefix_and_says_why_once(arch: str, tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", arch)
    with Relay(path, policy="relay", n_ctx=512, n_threads=1, sampling={"max_tokens": 4}, store_bytes=10**7) as relay:
        chain = relay.chain([Agent("plan", "Plan."), Agent("code", "Write code."), Agent("review", "Review.")])
        notices = [event.text for event in chain.stream("Sort a list.") if isinstance(event, Notice)]
        [notice] = [text for text in notices if "relaying is off" in text]
        assert EXPECTED[arch].refusal in notice and "policy prefix" in notice
        assert chain.result.policy == "prefix"
        assert [turn.metrics.span_tokens for turn in chain.result.turns] == [0, 0, 0]


@pytest.mark.parametrize("arch", ["mamba", "jamba", "qwen35", "qwen2vl", "deepseek2"])
def test_a_model_that_cannot_relay_is_exact_and_refuses_spans(arch: str, tmp_path: Path) -> None:
    with opened(write_model(tmp_path / "m.gguf", arch), n_ctx=512) as live:
        store = Store(live.engine.layout, 10**7)
        prompts = [live.tokens(40), live.tokens(40) + live.tokens(9, 1), live.tokens(20), live.tokens(40)]
        for prompt in prompts:
            logits = live.logits_of(make_plan(prompt, store, PREFIX))
            live.engine.force(live.tokens(3, 4))
            store.put(live.engine.harvest(""))
            assert difference(logits, live.full(prompt)) < 0.03
        empty = Rows(np.arange(30, 70, dtype=np.int32), 0, 40, np.empty(0, np.uint8), live.engine.layout)
        with pytest.raises(UsageError, match="relaying is off for this model"):
            live.prefill(plan_of(NAIVE, [30], Taken(empty), [31]))


def test_a_closed_engine_in_a_relay_is_one_line(tiny_path: Path) -> None:
    relay = Relay(tiny_path, n_ctx=256, n_threads=1, store_bytes=10**6)
    chain = relay.chain([Agent("plan", "Plan.")])
    relay.close()
    with pytest.raises(EngineClosed, match="open it again"):
        chain.run("Sort.")


def test_damage_to_the_slot_identity_is_an_error_and_not_a_wrong_answer(tiny: LiveEngine) -> None:
    """The cells of the live sequence are moved behind the engine's back; the next batch notices."""
    rows = tiny.full_rows(tiny.tokens(40))
    memory = tiny.engine._context.memory
    lc.llama_memory_seq_cp(memory, 0, 1, -1, -1)  # positions stay, cells are no longer free for what comes
    lc.llama_memory_seq_rm(memory, 0, 20, -1)
    plan = plan_of(PREFIX, Taken(rows, 0, 20, Kind.PREFIX), tiny.tokens(9, 1))
    with pytest.raises(NativeError, match="does not hold position"):
        tiny.prefill(plan)
    lc.llama_memory_seq_rm(memory, 1, -1, -1)
    assert len(tiny.engine.harvest("")) == 0
    assert difference(tiny.full(tiny.tokens(40)), tiny.full(tiny.tokens(40))) == 0
