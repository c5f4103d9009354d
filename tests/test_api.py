"""`Relay` as scripts use it, on the scripted engine: what it hands out, its defaults, and the document of `--json`."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.fakes import FakeEngine

from relaylite import Agent, Attachment, ChainResult, EngineBusy, EngineClosed, Policy, Relay, Sampling, UsageError, read_attachment
from relaylite.engine.options import EngineOptions
from relaylite.events import Phase
from relaylite.metrics import TtftParts, TurnMetrics
from relaylite.settings.settings import load_settings

PLAN = Agent("plan", "Make a plan.")
DOCUMENTED = {  # the names in --json; scripts rely on them
    "agents": {
        "name",
        "text",
        "finish_reason",
        "prompt_tokens",
        "prefix_tokens",
        "span_tokens",
        "computed_tokens",
        "recomputed_tokens",
        "reuse_ratio",
        "prompt_reuse",
        "ttft_ms",
        "ttft_parts_ms",
        "generated_tokens",
        "decode_tokens_per_s",
        "context_used",
        "context_size",
        "full_ttft_estimate_ms",
        "full_ttft_low_ms",
        "full_ttft_high_ms",
        "prefix_ttft_estimate_ms",
        "prefix_ttft_low_ms",
        "prefix_ttft_high_ms",
    },
    "": {"model", "policy", "agents", "wall_ms", "peak_rss_mb", "notices"},
    "ttft_parts_ms": {"render", "place", "rectify", "suffix", "sample"},
}


def test_a_script_gets_text_and_figures(engine: FakeEngine) -> None:
    engine.enqueue("the plan", "the code", "all is well")
    with Relay(engine=engine) as relay:
        result = relay.chain(["plan", "code", "review"]).run("Merge two sorted lists.")
    assert result.text == "all is well"
    assert [turn.agent for turn in result.turns] == ["plan", "code", "review"]
    assert result.turns[2].metrics.ttft_ms > 0
    assert engine.is_closed


def test_the_json_document_has_the_documented_names_and_plain_values(engine: FakeEngine) -> None:
    document = json.loads(json.dumps(Relay(engine=engine).chain([PLAN]).run("Sort.").to_dict(), allow_nan=False))
    [agent] = document["agents"]
    assert document.keys() == DOCUMENTED[""]
    assert agent.keys() == DOCUMENTED["agents"]
    assert agent["ttft_parts_ms"].keys() == DOCUMENTED["ttft_parts_ms"]
    assert (document["model"], agent["name"], agent["text"], agent["finish_reason"]) == ("fake", "plan", "Understood.", "stop")
    assert document["peak_rss_mb"] > 1 and document["wall_ms"] > 0


def test_every_metric_is_in_the_document() -> None:
    assert {field.name for field in dataclasses.fields(TurnMetrics)} <= DOCUMENTED["agents"]
    assert {field.name for field in dataclasses.fields(TtftParts)} == DOCUMENTED["ttft_parts_ms"]


def test_a_result_before_any_run_is_empty(engine: FakeEngine) -> None:
    result = Relay(engine=engine).chain([PLAN]).result
    assert isinstance(result, ChainResult)
    assert (result.text, result.turns, result.to_dict()["agents"]) == ("", (), [])


def test_the_result_of_a_run_that_was_stopped_holds_what_was_written(engine: FakeEngine) -> None:
    chain = Relay(engine=engine).chain([PLAN])
    stream = chain.stream("Sort.")
    while not chain.rounds or not engine.in_generate.is_set():
        next(stream)
    stream.close()
    assert [agent["finish_reason"] for agent in chain.result.to_dict()["agents"]] == ["cancelled"]
    assert chain.result.wall_ms > 0


def test_chains_start_with_the_relays_policy_and_sampling(engine: FakeEngine) -> None:
    relay = Relay(engine=engine, policy="relay", fidelity="careful", sampling={"max_tokens": 7, "seed": 3})
    chain = relay.chain([PLAN])
    assert (chain.policy.label, chain.sampling) == ("relay:careful", Sampling(max_tokens=7, seed=3))
    other = relay.chain([PLAN], policy="full", sampling={"max_tokens": 2})
    assert (other.policy.label, other.sampling) == ("full", Sampling(max_tokens=2, seed=3))
    assert Relay(engine=engine, sampling=Sampling(top_k=1)).chain([PLAN]).sampling == Sampling(top_k=1)
    assert Relay(engine=engine, policy=Policy("mine", True, True, min_span=5)).chain([PLAN]).policy.min_span == 5


def test_a_close_that_fails_does_not_hide_what_led_there(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relaylite.runs.runner.CLOSE_TIMEOUT_S", 0.05)
    with pytest.raises(KeyboardInterrupt) as caught, Relay(engine=engine) as relay:
        never_ends(relay, engine)
        raise KeyboardInterrupt
    assert caught.value.__notes__ == ["the model did not stop within 0 s; it is freed when the process ends"]
    other = FakeEngine()
    with pytest.raises(EngineBusy, match="did not stop"), Relay(engine=other) as relay:
        never_ends(relay, other)
    for each in (engine, other):
        each.prefill_gate.set()


def never_ends(relay: Relay, engine: FakeEngine) -> None:
    """Begin a run that does not look whether it was cancelled, and wait until it has looked for the last time."""
    engine._raise_if_cancelled = lambda: None  # type: ignore[method-assign]
    engine.prefill_gate.clear()
    is_computing = threading.Event()

    def run() -> None:
        with suppress(EngineClosed):
            for event in relay.chain([PLAN]).stream("Sort."):
                if event == Phase("suffix"):
                    is_computing.set()

    threading.Thread(target=run, daemon=True).start()
    assert is_computing.wait(60)


def test_bad_settings_are_refused_before_a_model_is_opened() -> None:
    for bad in (
        {"store_codec": "zip"},
        {"policy": "psychic"},
        {"policy": "relay", "fidelity": "sloppy"},
        {"sampling": {"warmth": 1}},
        {"sampling": {"seed": -1}},
    ):
        with pytest.raises(UsageError):
            Relay("/there/is/no/such/model.gguf", **bad)  # type: ignore[arg-type]


def test_unknown_agents_and_sampling_are_refused(engine: FakeEngine) -> None:
    relay = Relay(engine=engine)
    with pytest.raises(UsageError, match="unknown agent 'pln'; did you mean plan"):
        relay.chain(["pln"])
    with pytest.raises(UsageError, match="unknown sampling value 'warmth'"):
        relay.chain([PLAN], sampling={"warmth": 1})


def test_the_model_can_be_looked_at(engine: FakeEngine) -> None:
    relay = Relay(engine=engine, store_bytes=10**8)
    assert relay.info.n_ctx == 4096
    assert (relay.piece(65), relay.piece(257)) == (b"A", b"")
    before = relay.memory()
    relay.chain([PLAN]).run("Sort.")
    after = relay.memory()
    assert before.store_bytes == 0 < after.store_bytes
    assert after.kv_bytes == 4096 * 64 and after.resident_bytes > 10**6


def test_chains_share_the_rows_of_their_model(engine: FakeEngine) -> None:
    relay = Relay(engine=engine, policy="prefix", store_bytes=10**8)
    relay.chain([PLAN]).run("Sort.")
    [turn] = relay.chain([PLAN]).run("Sort.").turns
    assert turn.metrics.computed_tokens == 1


def test_a_budget_of_zero_keeps_nothing_and_works(engine: FakeEngine) -> None:
    relay = Relay(engine=engine, policy="relay", store_bytes=0)
    relay.chain([PLAN]).run("Sort.")
    [turn] = relay.chain([PLAN]).run("Sort.").turns
    assert turn.metrics.computed_tokens == turn.metrics.prompt_tokens
    assert relay.memory().store_bytes == 0


def test_rows_on_disk_outlive_the_relay(engine: FakeEngine, tmp_path: Path) -> None:
    with Relay(engine=engine, policy="prefix", store_bytes=10**8, store_folder=tmp_path / "rows") as relay:
        relay.chain([PLAN]).run("Sort.")
    with Relay(engine=FakeEngine(), policy="prefix", store_bytes=10**8, store_folder=tmp_path / "rows") as relay:
        [turn] = relay.chain([PLAN]).run("Sort.").turns
    assert turn.metrics.computed_tokens == 1


def test_attachments_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    good, empty, binary = tmp_path / "a.md", tmp_path / "b.md", tmp_path / "c.bin"
    good.write_text("\ufeffnaïve\n", encoding="utf-8")
    empty.write_text(" \n")
    binary.write_bytes(b"ab\xff")
    assert read_attachment(good) == Attachment(str(good), "naïve\n")
    for path, reason in ((empty, "it is empty"), (binary, "it is no UTF-8 text (byte 3)"), (tmp_path, "Is a directory")):
        with pytest.raises(UsageError) as caught:
            read_attachment(path)
        assert str(caught.value) == f"cannot attach {path}: {reason}"


def test_the_store_learns_what_a_token_costs(engine: FakeEngine) -> None:
    engine.prefill_delay = 0.05
    relay = Relay(engine=engine, policy="prefix", store_bytes=10**8)
    [turn] = relay.chain([PLAN]).run("Sort.").turns
    assert turn.metrics.full_ttft_estimate_ms >= 50
    assert relay._store.speed.estimate(0, turn.metrics.prompt_tokens).ms == pytest.approx(turn.metrics.full_ttft_estimate_ms)


def test_a_form_that_the_rows_cannot_take_is_refused_and_frees_the_model(engine: FakeEngine, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot keep this model's rows as q8"):
        Relay(engine=engine, store_folder=tmp_path, store_codec="q8")
    assert engine.is_closed


def test_options_reach_the_engine_and_unset_ones_keep_its_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[tuple[Path, EngineOptions]] = []

    class Engine:
        @staticmethod
        def open(path: Path, options: EngineOptions) -> FakeEngine:
            opened.append((path, options))
            return FakeEngine()

    monkeypatch.setitem(sys.modules, "relaylite.engine.engine", SimpleNamespace(Engine=Engine))
    monkeypatch.setattr("relaylite.gguf.catalog.resolve_model", lambda reference: tmp_path / str(reference))
    Relay("m.gguf", n_ctx=512, kv_type="q8_0", chat_template="chatml", lora="a.gguf,b.gguf:2", rpc=["h:1"], on_progress=print)
    Relay("m.gguf")
    given = EngineOptions(n_ctx=512, kv_type="q8_0", chat_template="chatml", lora=("a.gguf", "b.gguf:2"), rpc=("h:1",), on_progress=print)
    assert opened == [(tmp_path / "m.gguf", given), (tmp_path / "m.gguf", EngineOptions())]


def test_the_options_of_settings_are_those_of_an_engine_and_of_a_relay() -> None:
    """Each is taken by name, so what the settings call otherwise would be an error."""
    flags = {"ctx": 512, "threads": 3, "gpu_layers": 2, "rpc": "h:1", "lora": "a.gguf", "kv_type": "q8_0", "chat_template": "chatml"}
    flags["trial"] = "false"
    given = EngineOptions(
        n_ctx=512, n_threads=3, n_gpu_layers=2, rpc=("h:1",), lora=("a.gguf",), kv_type="q8_0", chat_template="chatml", trial=False
    )
    assert EngineOptions(**load_settings(flags).engine_options()) == given
    assert EngineOptions(**load_settings().engine_options()) == EngineOptions()
    taken = inspect.signature(Relay).parameters.keys()
    assert load_settings(flags).relay_options().keys() == taken - {"model", "on_progress", "on_notice", "engine", "n_parallel"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"store_bytes": -1}, "store_bytes must be 0 bytes or more, not -1"),
        ({"store_bytes": 1e9}, "store_bytes must be a whole number"),
        ({"store_disk_bytes": -1}, "store_disk_bytes must be 0 bytes or more"),
        ({"store_codec": ["plain"]}, "unknown codec"),
        ({"settle_after_s": -1}, "settle_after_s must be"),
        ({"settle_after_s": float("nan")}, "settle_after_s must be"),
        ({"settle_after_s": "2"}, "settle_after_s must be"),
    ],
)
def test_values_that_cannot_be_are_one_line(options: dict[str, object], says: str, engine: FakeEngine) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        Relay(engine=engine, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"n_ctx": "12"}, {"n_gpu_layers": -7}, {"rpc": 5}, {"lora": 5}, {"relay": 0}, {"n_threads": True}])
def test_options_of_the_engine_that_cannot_be_are_one_line(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(options)) + "|layers"):
        Relay(**options)  # type: ignore[arg-type]
