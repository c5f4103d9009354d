"""Rows that are loaded while layers run: the same answer as from memory, whatever is slow, damaged or cancelled in the middle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.live_engine import LiveEngine, Taken, changed, home_of_session, opened, plan_of
from support.tiny_models import write_model

from relaylite.engine.cache import SliceResult
from relaylite.errors import Cancelled
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import NAIVE, PREFIX, RELAY, Policy
from relaylite.reuse.row_loading import Damaged, Loading
from relaylite.reuse.rows import k_of, v_of
from relaylite.runs.runner import Run, Runner
from relaylite.store import Store
from relaylite.store.codec import CODECS
from relaylite.store.rowfile import RowFile

PLENTY = 1 << 30
N_LAYER = 10
DETECTORS = {
    "attention": {"l_start": 2, "l_det": 2, "l_end": N_LAYER, "tau": 1.0, "max_share": 0.3},
    "value": {"l_start": 1, "l_det": 3, "l_end": N_LAYER, "detector": "value", "tau": 1.0, "max_share": 0.3},
    "attention, attended": {"l_start": 2, "l_det": 2, "l_end": N_LAYER, "tau": 1.0, "max_share": 0.3, "attended": 1.0},
    "value, attended": {"l_start": 1, "l_det": 5, "l_end": N_LAYER, "detector": "value", "tau": 1.0, "max_share": 0.3, "attended": 1.0},
    "early end": {"l_start": 2, "l_det": 2, "l_end": 7, "tau": 1.0, "max_share": 0.3},
    "from the ids": {"l_start": 0, "l_det": 0, "l_end": N_LAYER, "tau": 1.0, "max_share": 0.3},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny.gguf", "gemma3", n_layer=N_LAYER)


@pytest.fixture(scope="module")
def live(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveEngine]:
    """Gemma 3: some of its layers see a window only."""
    with home_of_session(tmp_path_factory), opened(model) as live:
        yield live


def kept(live: LiveEngine, folder: Path, codec: str = "plain") -> Store:
    """A store that finds on disk what two upstream agents wrote behind one prompt."""
    store = Store(live.engine.layout, PLENTY, folder=folder, codec=CODECS[codec])
    for seed in (0, 1):
        store.put(live.written(n_prompt=30, n_answer=60, seed=seed))
    store.flush()
    return Store(live.engine.layout, PLENTY, folder=folder)


def asked(live: LiveEngine) -> list[int]:
    """A prompt that goes on from one text and quotes the other twice."""
    first, second = live.tokens(90, 0), live.tokens(90, 1)
    return [*first[:60], 7, 8, 9, *second[30:80], 40, 41, *second[35:75], 42, 43]


def bring_all(plan: Plan) -> Plan:
    for segment in plan.segments:
        if segment.rows is not None:
            segment.rows.bring()
    return plan


def loaders() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("relaylite-load")]


@pytest.fixture(params=[0, 3], ids="{} threads".format)
def n_loaders(request: pytest.FixtureRequest, live: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> int:
    """Threads that load ahead."""
    monkeypatch.setattr(live.engine._sequence, "_n_loaders", request.param)
    return int(request.param)


@pytest.mark.parametrize("codec", ["plain", "q8"])
@pytest.mark.parametrize("detector", DETECTORS)
def test_logits_and_rows_are_those_of_rows_from_memory(detector: str, codec: str, n_loaders: int, live: LiveEngine, tmp_path: Path) -> None:
    live.relay_by(changed(DETECTORS[detector]))
    store = kept(live, tmp_path, codec)
    for policy in (RELAY, NAIVE, PREFIX) if codec == "plain" else (RELAY, NAIVE):
        live.engine.configure(live.engine.profile)
        late = make_plan(asked(live), Store(live.engine.layout, PLENTY, folder=tmp_path), policy)
        assert not any(s.rows.is_whole for s in late.segments if s.rows is not None)
        assert late.count(Kind.PREFIX) == 60 and late.count(Kind.SPAN) == (0 if policy is PREFIX else 90)
        logits, rows = live.logits_of(late).copy(), live.engine.harvest("")
        live.engine.configure(live.engine.profile)
        expected = live.logits_of(bring_all(make_plan(asked(live), store, policy)))
        assert np.array_equal(logits, expected)
        assert np.array_equal(rows.data, live.engine.harvest("").data)
        assert loaders() == []


def test_a_sweep_goes_no_further_than_rows_have_come(live: LiveEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers run while later ones are still to be loaded, and no layer runs before its rows are there."""
    live.relay_by(changed(DETECTORS["attention"]))
    store = kept(live, tmp_path)
    order: list[tuple[str, int]] = []
    make, cache = RowFile._make, live.engine._sequence.cache
    assert cache is not None
    run, has_run_thrice = cache.slice, threading.Event()

    def make_noted(*args: Any) -> None:
        if args[-1] == N_LAYER - 1:  # the last one comes late
            assert has_run_thrice.wait(60)
        make(*args)
        order.append(("load", args[-1]))

    def run_noted(layers: tuple[int, int], *args: Any, **named: Any) -> SliceResult:
        order.append(("run", layers[1]))
        if sum(what == "run" for what, _ in order) == 3:
            has_run_thrice.set()
        return run(layers, *args, **named)

    monkeypatch.setattr(RowFile, "_make", make_noted)
    monkeypatch.setattr(live.engine._sequence, "_n_loaders", 1)
    monkeypatch.setattr(cache, "slice", run_noted)
    live.prefill(make_plan(asked(live), store, RELAY))
    ends = [layer for what, layer in order if what == "run"]
    assert ends[-1] == N_LAYER and len(ends) > 3
    for i, (what, end) in enumerate(order):
        if what == "run":
            loaded = {layer for what, layer in order[:i] if what == "load"}
            assert loaded >= set(range(end)) and (end == N_LAYER or len(loaded) < N_LAYER)


def test_where_no_core_is_free_all_rows_are_there_before_a_layer_runs(
    live: LiveEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.relay_by(changed(DETECTORS["attention"]))
    plan = make_plan(asked(live), kept(live, tmp_path), RELAY)
    cache = live.engine._sequence.cache
    assert cache is not None
    run, were_whole = cache.slice, []

    def run_noted(*args: Any, **named: Any) -> SliceResult:
        were_whole.append(all(segment.rows.is_whole for segment in plan.segments if segment.rows is not None))
        return run(*args, **named)

    monkeypatch.setattr(live.engine._sequence, "_n_loaders", 0)
    monkeypatch.setattr(cache, "slice", run_noted)
    live.prefill(plan)
    assert were_whole and all(were_whole)


def damage(folder: Path, name: str) -> list[Path]:
    """Flip a bit in the middle of that section of every file."""
    paths = sorted(folder.glob("*.rows"))
    for path in paths:
        file, content = RowFile(path), bytearray(path.read_bytes())
        place, size, _ = file.header.sections[name]
        content[file._base + place + size // 2] ^= 4
        path.write_bytes(content)
    return paths


@pytest.mark.parametrize("section", ["k0", "v6", f"v{N_LAYER - 1}"])
@pytest.mark.parametrize("policy", [RELAY, PREFIX], ids=["relay", "prefix"])
def test_damage_in_the_middle_is_a_miss_with_one_warning(
    section: str, policy: Policy, n_loaders: int, live: LiveEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live.relay_by(changed(DETECTORS["attention"]))
    store = kept(live, tmp_path)
    paths = damage(tmp_path, section)
    live.engine.configure(live.engine.profile)
    runner = Runner(live.engine, store)
    plan = make_plan(asked(live), store, policy)
    assert plan.count(Kind.NEW) < len(plan.tokens)
    phases = runner.prefill(Run(), plan)
    while True:
        try:
            next(phases)
        except StopIteration as end:
            done = end.value
            break
    assert done.plan.count(Kind.NEW) == len(plan.tokens)
    logits = live.engine.logits().copy()
    assert np.array_equal(logits, live.full(asked(live)))
    n_used = len(paths) if policy is RELAY else 1
    assert len(caplog.records) == n_used and len(list(tmp_path.glob("*.rows"))) == len(paths) - n_used
    assert all("is removed" in record.message and section in record.message for record in caplog.records)
    assert loaders() == []


def test_what_lies_on_other_files_stays_in_use(live: LiveEngine, tmp_path: Path) -> None:
    store = kept(live, tmp_path)
    intact = make_plan(asked(live), store, NAIVE)
    spans = [segment.rows for segment in intact.of(Kind.SPAN) if segment.rows is not None]
    [name] = {path.name for path in tmp_path.glob("*.rows") if RowFile(path).own_tokens[0] == live.tokens(1, 1)[0]}
    assert spans
    store.forget(Damaged(name, ValueError("damaged")))
    again = make_plan(asked(live), store, NAIVE)
    assert again.count(Kind.PREFIX) == 60 and again.count(Kind.SPAN) == 0


def slowed(live: LiveEngine, at: int, act: Callable[[], None]) -> Plan:
    """A plan that takes over rows in memory as if they came from disk; when layer `at` is loaded, `act` is called."""
    source = live.written(n_prompt=30, n_answer=60)
    data = np.empty_like(source.data)

    def make(layer: int) -> None:
        if layer == at:
            act()
        k_of(data, source.layout, layer)[:] = source.k(layer)
        v_of(data, source.layout, layer)[:] = source.v(layer)

    rows = replace(source, data=data, loading=Loading(live.n_layer, make))
    return plan_of(RELAY, [7, 8, 9], Taken(rows, 30, 55), [40, 41])


@pytest.mark.parametrize("at", [0, 2, 5, N_LAYER - 1])
def test_a_cancel_while_a_layer_is_loaded_leaves_no_thread(at: int, n_loaders: int, live: LiveEngine) -> None:
    live.relay_by(changed(DETECTORS["attention"]))
    plan = slowed(live, at, live.engine.cancel)
    with pytest.raises(Cancelled):
        live.prefill(plan)
    assert loaders() == [] and len(live.engine.harvest("")) == 0
    assert np.array_equal(live.logits_of(plan), live.logits_of(bring_all(plan)))
