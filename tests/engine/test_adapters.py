"""LoRA adapters: the engine computes what llama.cpp does with them, relays with them, and never takes rows of one for those of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.live_engine import LiveEngine, Taken, difference, opened, plan_of
from support.plain_llama import greedy, rows_in
from support.tiny_models import write_adapter, write_model

from relaylite.errors import ModelError, ModelFileError, UsageError
from relaylite.gguf.adapters import Adapter, parse_adapter, read_adapters
from relaylite.reuse.plan import Kind
from relaylite.reuse.policies import RELAY
from relaylite.store import Store

ROUNDING = 2e-2


@pytest.fixture(scope="module")
def adapter(tiny_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_adapter(tmp_path_factory.mktemp("adapters") / "a.gguf", tiny_path)


def test_an_engine_with_an_adapter_is_llama_cpp_with_it(tiny: LiveEngine, tiny_path: Path, adapter: Path) -> None:
    prompt = tiny.tokens(60)
    written, state = greedy(tiny_path, prompt, 12, n_ctx=2048, kv_type="f32", lora=(adapter, 0.5))
    with opened(tiny_path, kv_type="f32", lora=(f"{adapter}:0.5",)) as live:
        live.prefill(plan_of(RELAY, prompt))
        assert live.generate(12) == written
        rows = live.engine.harvest("")
        assert np.array_equal(rows.data, rows_in(state, rows.tokens.tolist(), rows.layout).data)
        assert difference(live.full(prompt), tiny.full(prompt)) > 0.1, "the adapter changes what is written"


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3moe", "phi3", "gemma3"])
def test_it_relays_with_an_adapter(arch: str, tmp_path: Path) -> None:
    """The self-check compared a slice with llama_decode, adapter and all; with everything recomputed, relay is full."""
    model = write_model(tmp_path / "m.gguf", arch, n_layer=None, weights="F32")
    lora = write_adapter(tmp_path / "a.gguf", model)
    with opened(model, kv_type="f32", lora=(str(lora),)) as live:
        assert live.engine.info.relay_refusal is None
        assert live.engine.info.adapters == (f"{lora}:1",)
        upstream = live.written()
        plan = plan_of(RELAY, live.tokens(9, seed=3), Taken(upstream, 24), live.tokens(5, seed=4))
        expected = live.full(plan.tokens)
        live.engine.configure(live.engine.profile, forced=lambda plan: plan.positions(Kind.SPAN))
        assert difference(live.logits_of(plan), expected) < ROUNDING


def layout(model: Path, *lora: str) -> str:
    with opened(model, n_ctx=256, lora=lora) as live:
        return live.engine.layout.fingerprint


def test_the_key_is_the_adapters_content_and_scale(tiny_path: Path, adapter: Path, tmp_path: Path) -> None:
    other = write_adapter(tmp_path / "b.gguf", tiny_path, seed=1)
    renamed = tmp_path / "renamed.gguf"
    renamed.write_bytes(adapter.read_bytes())
    none, one = layout(tiny_path), layout(tiny_path, str(adapter))
    assert layout(tiny_path, f"{adapter}:1.0") == layout(tiny_path, str(renamed)) == one
    assert layout(tiny_path, f"{adapter}:0") == none
    assert layout(tiny_path, str(adapter), str(other)) == layout(tiny_path, str(other), str(adapter))
    different = {none, one, layout(tiny_path, f"{adapter}:0.5"), layout(tiny_path, str(other)), layout(tiny_path, str(adapter), str(other))}
    assert len(different) == 5


def test_rows_of_another_adapter_are_never_found(tiny_path: Path, adapter: Path, tmp_path: Path) -> None:
    def found(*lora: str) -> bool:
        with opened(tiny_path, lora=lora) as live:
            store = Store(live.engine.layout, 1 << 30, folder=tmp_path / "store")
            prompt = np.array(live.tokens(64), np.int32)
            return store.prefix(prompt, exact=False) is not None or bool(store.spans(prompt, 0, 16))

    with opened(tiny_path, lora=(str(adapter),)) as live:
        store = Store(live.engine.layout, 1 << 30, folder=tmp_path / "store")
        store.put(live.written())
        store.flush()
    assert found(str(adapter))
    assert not found()
    assert not found(f"{adapter}:0.5")
    assert not found(str(write_adapter(tmp_path / "b.gguf", tiny_path, seed=1)))


def test_a_file_and_its_scale(tmp_path: Path) -> None:
    odd = tmp_path / "named:2"
    odd.write_bytes(b"")
    assert parse_adapter("a.gguf") == Adapter(Path("a.gguf"))
    assert parse_adapter("a.gguf:0.25") == Adapter(Path("a.gguf"), 0.25)
    assert parse_adapter("a.gguf:-1e-1") == Adapter(Path("a.gguf"), -0.1)
    assert parse_adapter("C:a.gguf") == Adapter(Path("C:a.gguf"))
    assert parse_adapter(str(odd)) == Adapter(odd)
    assert parse_adapter("a.gguf:") == Adapter(Path("a.gguf:"))
    assert parse_adapter("~nobodyhere/a.gguf:2") == Adapter(Path("~nobodyhere/a.gguf"), 2.0)
    for scale in ("nan", "inf", "1e999", "1e39"):
        with pytest.raises(UsageError, match="finite number"):
            parse_adapter(f"a.gguf:{scale}")


Q = "blk.0.attn_q.weight"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a model": ({"keys": {"general.type": "model"}}, "not a LoRA adapter"),
    "another kind": ({"keys": {"adapter.type": "ia3"}}, "not a LoRA adapter"),
    "no type": ({"keys": {"general.type": None}}, "not a LoRA adapter"),
    "another architecture": ({"keys": {"general.architecture": "qwen2"}}, "an adapter for 'qwen2'"),
    "alpha as text": ({"keys": {"adapter.lora.alpha": "8"}}, "no finite 32-bit number"),
    "alpha of 64 bits": ({"keys": {"adapter.lora.alpha": np.float64(8)}}, "no finite 32-bit number"),
    "alpha that is no number": ({"keys": {"adapter.lora.alpha": float("nan")}}, "no finite 32-bit number"),
    "alpha without end": ({"keys": {"adapter.lora.alpha": float("inf")}}, "no finite 32-bit number"),
    "nothing at all": ({"parts": ["no such weight"]}, "changes no weight"),
    "nothing but a norm": ({"parts": ["no such weight"], "shapes": {"blk.0.attn_norm.weight": (64,)}}, "changes no weight"),
    "whole numbers as A": ({"shapes": {f"{Q}.lora_a": (4, 64)}, "dtype": np.int32}, "does not fit"),
    "whole numbers as B": ({"shapes": {f"{Q}.lora_b": (64, 4)}, "dtype": np.int8}, "does not fit"),
    "64 bits": ({"shapes": {f"{Q}.lora_b": (64, 4)}, "dtype": np.float64}, "does not fit"),
    "activated": ({"keys": {"adapter.alora.invocation_tokens": [1, 2]}}, "aLoRA"),
    "strange tensors": ({"shapes": {"blk.0.attn_q.bias": (64,)}}, "no part of a LoRA"),
    "half a pair": ({"shapes": {f"{Q}.lora_b": ()}}, "does not fit"),
    "the other half": ({"shapes": {f"{Q}.lora_a": ()}}, "does not fit"),
    "too wide": ({"shapes": {f"{Q}.lora_a": (4, 33)}}, "does not fit"),
    "ranks differ": ({"shapes": {f"{Q}.lora_a": (5, 64)}}, "does not fit"),
    "experts of a dense weight": ({"shapes": {f"{Q}.lora_a": (2, 4, 64), f"{Q}.lora_b": (2, 64, 4)}}, "does not fit"),
    "another weight": ({"shapes": {"blk.9.attn_q.weight.lora_a": (4, 64), "blk.9.attn_q.weight.lora_b": (64, 4)}}, "does not fit"),
    "a vector": ({"shapes": {"blk.0.attn_norm.weight2.lora_a": (4, 64), "blk.0.attn_norm.weight2.lora_b": (1, 4)}}, "does not fit"),
    "an embedding the wrong way round": (
        {"shapes": {"token_embd.weight.lora_a": (4, 64), "token_embd.weight.lora_b": (300, 4)}},
        "does not fit",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_adapter_of_this_model_gets_one_line(name: str, tiny_path: Path, tmp_path: Path) -> None:
    how, expected = BAD[name]
    path = write_adapter(tmp_path / "bad.gguf", tiny_path, **how)
    with pytest.raises(ModelFileError, match=expected) as caught, opened(tiny_path, lora=(str(path),)):
        pass
    assert "\n" not in str(caught.value)


def test_a_cut_or_missing_adapter_and_one_named_twice(tiny_path: Path, adapter: Path, tmp_path: Path) -> None:
    content = adapter.read_bytes()
    cut = tmp_path / "cut.gguf"
    for n in (0, 3, 30, len(content) // 2, len(content) - 1):
        cut.write_bytes(content[:n])
        with pytest.raises(ModelFileError):
            read_adapters([str(cut)], tiny_path)
    with pytest.raises(ModelFileError, match=r"there is no file .*none\.gguf; an adapter is"):
        read_adapters([str(tmp_path / "none.gguf")], tiny_path)
    with pytest.raises(UsageError, match="named twice"):
        read_adapters([str(adapter), f"{adapter}:0.5"], tiny_path)


def test_an_adapter_of_the_embedding(tiny_path: Path, tmp_path: Path) -> None:
    """llama.cpp reads its pair the other way round: A has a row for each token."""
    with opened(tiny_path, n_ctx=256) as live:
        n_vocab, n_embd = live.engine.info.n_vocab, live.engine.info.n_embd
    shapes = {"token_embd.weight.lora_a": (n_vocab, 4), "token_embd.weight.lora_b": (n_embd, 4)}
    path = write_adapter(tmp_path / "embedding.gguf", tiny_path, parts=("no such weight",), shapes=shapes)
    with opened(tiny_path, lora=(str(path),)) as live:
        assert live.engine.info.relay_refusal is None


def test_an_adapter_of_an_embedding_that_is_the_output_too(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.gguf", "gemma")
    with opened(model, n_ctx=256) as live:
        n_vocab, n_embd = live.engine.info.n_vocab, live.engine.info.n_embd
    shapes = {"token_embd.weight.lora_a": (n_vocab, 4), "token_embd.weight.lora_b": (n_embd, 4)}
    path = write_adapter(tmp_path / "embedding.gguf", model, parts=("no such weight",), shapes=shapes)
    with pytest.raises(ModelFileError, match="output too"), opened(model, lora=(str(path),)):
        pass


def test_a_scale_that_makes_no_numbers_is_told_at_once(tiny_path: Path, adapter: Path) -> None:
    with pytest.raises(ModelError, match="computes no numbers"), opened(tiny_path, lora=(f"{adapter}:3e38",)):
        pass
