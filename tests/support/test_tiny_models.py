"""The tiny models are what the other tests take them for: llama.cpp runs the good ones and does not take the damaged ones."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
import llama_cpp.llama_cpp as llama
import numpy as np
import pytest

from support.tiny_models import ABORTING, ARCHITECTURES, DAMAGES, TEMPLATES, write_damaged, write_model
from support.tiny_models.table import TABLE

WINDOWS = {"gemma2": 32, "gemma3": 32, "gemma4": 32, "gpt-oss": 32, "cohere2": 32, "llama4": 8192}
WITHOUT_ROPE = {"gpt2", "bloom", "mamba", "jamba"}
RECURRENT = {"mamba"}
HYBRID = {"jamba", "lfm2", "qwen35"}
ROPE_VARIANTS = {"llama-linear": "llama", "llama-yarn": "llama", "llama-llama3": "llama", "mistral3": "llama", "phi3-longrope": "phi3"}
PROMPT = [17, 240, 90, 31, 205, 64, 128, 55, 90, 211, 77, 300]


@llama.llama_log_callback
def ignore(*_: object) -> None:
    """llama.cpp says much of every model."""


@pytest.fixture(autouse=True, scope="module")
def quiet() -> None:
    llama.llama_log_set(ignore, ctypes.c_void_p(None))


@contextmanager
def loaded(path: Path) -> Iterator[Any]:
    params = llama.llama_model_default_params()
    params.use_extra_bufts = False  # repacked weights may want instructions (AMX) that a virtual machine promises and does not have
    model = llama.llama_model_load_from_file(str(path).encode(), params)
    assert model is not None, f"llama.cpp refuses {path.name}"
    try:
        yield model
    finally:
        llama.llama_model_free(model)


def logits(model: Any, tokens: Sequence[int], *, n_first: int = 0, n_ctx: int = 256, **params: Any) -> np.ndarray:
    """Logits after the last token. The first `n_first` tokens go in a batch of their own."""
    p = llama.llama_context_default_params()
    p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max = n_ctx, 256, 64, 2
    p.kv_unified, p.flash_attn_type, p.n_threads, p.n_threads_batch = True, 1, 1, 1
    for name, value in params.items():
        setattr(p, name, value)
    context = llama.llama_init_from_model(model, p)
    assert context is not None
    try:
        for part in (tokens[:n_first], tokens[n_first:]):
            if part:
                array = (ctypes.c_int32 * len(part))(*part)
                assert llama.llama_decode(context, llama.llama_batch_get_one(array, len(part))) == 0
        n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
        return np.ctypeslib.as_array(llama.llama_get_logits(context), (n_vocab,)).copy()
    finally:
        llama.llama_free(context)


def tokenize(model: Any, text: str, *, special: bool = False, bos: bool = False) -> list[int]:
    raw, buffer = text.encode(), (ctypes.c_int32 * 4096)()
    n = llama.llama_tokenize(llama.llama_model_get_vocab(model), raw, len(raw), buffer, len(buffer), bos, special)
    return list(buffer[:n])


def pieces(model: Any, tokens: Sequence[int]) -> bytes:
    buffer, text = ctypes.create_string_buffer(64), b""
    for token in tokens:
        n = llama.llama_token_to_piece(llama.llama_model_get_vocab(model), token, buffer, len(buffer), 0, False)
        text += buffer.raw[:n]
    return text


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_runs_and_order_matters(arch: str, tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", arch)
    assert path.stat().st_size < 3_000_000
    swapped = [*PROMPT[:5], PROMPT[6], PROMPT[5], *PROMPT[7:]]
    with loaded(path) as model:
        for swa_full in (True, False):
            got = logits(model, PROMPT, swa_full=swa_full)
            assert np.isfinite(got).all()
            assert 1 < got.std() < 6 and got.max() < 40
            assert np.abs(logits(model, swapped, swa_full=swa_full) - got).max() > 0.1
            assert np.abs(logits(model, [5, *PROMPT[1:]], swa_full=swa_full) - got).max() > 0.1


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_decoding_in_two_parts_is_decoding_at_once(arch: str, tmp_path: Path) -> None:
    with loaded(write_model(tmp_path / "m.gguf", arch, weights="F32")) as model:
        at_once = logits(model, PROMPT, type_k=0, type_v=0)
        assert np.abs(logits(model, PROMPT, n_first=7, type_k=0, type_v=0) - at_once).max() < 0.05


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_kinds_are_what_they_are_named_for(arch: str, tmp_path: Path) -> None:
    base = {f"{TABLE[arch].gguf_name}.rope.freq_base": 50.0}
    with loaded(write_model(tmp_path / "m.gguf", arch)) as model, loaded(write_model(tmp_path / "n.gguf", arch, metadata=base)) as turned:
        assert llama.llama_model_n_swa(model) == WINDOWS.get(arch, 0)
        assert llama.llama_model_is_recurrent(model) == (arch in RECURRENT)
        assert llama.llama_model_is_hybrid(model) == (arch in HYBRID)
        moved = np.abs(logits(turned, PROMPT) - logits(model, PROMPT)).max()
        assert moved == 0 if arch in WITHOUT_ROPE else moved > 0.1


@pytest.mark.parametrize("arch", ["gemma2", "gemma3", "gpt-oss", "cohere2"])  # those whose first layer can stand alone
def test_a_window_hides_what_lies_before_it(arch: str, tmp_path: Path) -> None:
    far = [PROMPT[i % len(PROMPT)] for i in range(100)]
    with loaded(write_model(tmp_path / "w.gguf", arch, n_layer=1)) as windowed:
        assert np.abs(logits(windowed, far) - logits(windowed, [5, *far[1:]])).max() == 0


@pytest.mark.parametrize(("variant", "base"), ROPE_VARIANTS.items())
def test_rope_variants_turn_otherwise(variant: str, base: str, tmp_path: Path) -> None:
    with loaded(write_model(tmp_path / "v.gguf", variant)) as one, loaded(write_model(tmp_path / "b.gguf", base)) as other:
        assert np.abs(logits(one, PROMPT) - logits(other, PROMPT)).max() > 0.1


def test_longrope_depends_on_the_size_of_the_context(tmp_path: Path) -> None:
    with loaded(write_model(tmp_path / "m.gguf", "phi3-longrope")) as model:
        assert np.abs(logits(model, PROMPT, n_ctx=2048) - logits(model, PROMPT, n_ctx=1024)).max() > 0.1


@pytest.mark.parametrize("weights", ["F32", "F16", "BF16", "Q8_0", "Q4_0"])
def test_weight_types_run_and_stay_near(weights: str, tmp_path: Path) -> None:
    with (
        loaded(write_model(tmp_path / "a.gguf", "llama", weights=weights)) as one,
        loaded(write_model(tmp_path / "b.gguf", "llama", weights="F32")) as other,
    ):
        assert np.corrcoef(logits(one, PROMPT), logits(other, PROMPT))[0, 1] > 0.8


@pytest.mark.parametrize("cache", [8, 2])  # GGML_TYPE_Q8_0, GGML_TYPE_Q4_0
@pytest.mark.parametrize("arch", ["llama", "phi3", "gemma3"])
def test_quantized_caches_run(arch: str, cache: int, tmp_path: Path) -> None:
    with loaded(write_model(tmp_path / "m.gguf", arch)) as model:
        assert np.corrcoef(logits(model, PROMPT, type_k=cache, type_v=cache), logits(model, PROMPT))[0, 1] > 0.8


def test_a_seed_is_a_model(tmp_path: Path) -> None:
    first, again, other = (write_model(tmp_path / f"{i}.gguf", "qwen3", seed=seed) for i, seed in enumerate((1, 1, 2)))
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()


def test_layers_and_metadata_are_as_asked(tmp_path: Path) -> None:
    with loaded(write_model(tmp_path / "m.gguf", "llama", n_layer=5, metadata={"llama.context_length": 512})) as model:
        assert llama.llama_model_n_layer(model) == 5
        assert llama.llama_model_n_ctx_train(model) == 512


@pytest.mark.parametrize("vocab", ["bpe", "spm"])
def test_vocabulary_spells_everything(vocab: str, tmp_path: Path) -> None:
    text = "Write a plan.\n\nSort 1234 lists & 猫 \U0001f408 é \t\x01" + "".join(map(chr, range(32, 256)))
    with loaded(write_model(tmp_path / "m.gguf", "llama", vocab=vocab)) as model:
        assert pieces(model, tokenize(model, text)).lstrip(b" ") == text.encode()


@pytest.mark.parametrize("vocab", ["bpe", "spm"])
def test_parts_tokenize_otherwise_than_the_whole(vocab: str, tmp_path: Path) -> None:
    with loaded(write_model(tmp_path / "m.gguf", "llama", vocab=vocab)) as model:
        parts = tokenize(model, "done.") + tokenize(model, "\n\nNext")
        assert parts != tokenize(model, "done.\n\nNext")


@pytest.mark.parametrize("vocab", ["bpe", "spm"])
def test_control_tokens(vocab: str, tmp_path: Path) -> None:
    with loaded(write_model(tmp_path / "m.gguf", "llama", vocab=vocab)) as model:
        handle = llama.llama_model_get_vocab(model)
        (start,), (end,) = (tokenize(model, text, special=True)[-1:] for text in ("<|im_start|>", "<|im_end|>"))
        assert start != end and not {start, end} & set(tokenize(model, "<|im_start|><|im_end|>"))
        assert llama.llama_vocab_is_eog(handle, end) and not llama.llama_vocab_is_eog(handle, start)
        assert llama.llama_vocab_get_add_bos(handle) == (vocab == "spm")
        assert (tokenize(model, "a", bos=True)[0] == llama.llama_vocab_bos(handle)) == (vocab == "spm")


@pytest.mark.parametrize("template", [None, *TEMPLATES, "{{ messages }}"])
def test_template_is_in_the_file(template: str | None, tmp_path: Path) -> None:
    with loaded(write_model(tmp_path / "m.gguf", "llama", n_layer=1, template=template)) as model:
        found = llama.llama_model_chat_template(model, None)
        assert (found.decode() if found else None) == (TEMPLATES.get(template, template) if template else None)


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_are_jinja(name: str) -> None:
    parse = jinja2.Environment(autoescape=False).parse
    if name == "invalid":
        with pytest.raises(jinja2.TemplateSyntaxError):
            parse(TEMPLATES[name])
    else:
        parse(TEMPLATES[name])


@pytest.mark.parametrize("damage", [damage for damage in DAMAGES if damage not in ABORTING])
def test_llama_refuses_what_is_damaged(damage: str, tmp_path: Path) -> None:
    path = write_damaged(tmp_path / "m.gguf", damage)
    assert llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params()) is None


@pytest.mark.parametrize("damage", ABORTING)
def test_llama_ends_the_process_on_some(damage: str, tmp_path: Path) -> None:
    path = write_damaged(tmp_path / "m.gguf", damage)
    code = "import llama_cpp.llama_cpp as l, sys; l.llama_model_load_from_file(sys.argv[1].encode(), l.llama_model_default_params())"
    environment = {**os.environ, "GGML_NO_BACKTRACE": "1"}
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, env=environment, check=False)
    assert done.returncode == -signal.SIGABRT
