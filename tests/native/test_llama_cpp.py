"""The extension and llama.cpp: one copy in the process, the same build, and a graph whose names are other ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from relaylite.engine import native
from relaylite.errors import NativeError
from relaylite.machine.installation import LLAMA_CPP_PYTHON, install_command

ROOT = Path(__file__).parent.parent.parent

OPEN_AND_CHECK = """
import sys
sys.path[:0] = ["tests"]
from pathlib import Path
from support.live_model import opened
from relaylite.engine import native, self_check
try:
    with opened(Path(sys.argv[1])) as live:
        print(live.cache.refusal or self_check.run(live.cache, live.context) or "relays")
except native.Unsupported as error:
    print("refused:", error)
"""


def run(code: str, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, **variables}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
@pytest.mark.parametrize("first", ["relaylite.engine.native", "llama_cpp"])
def test_one_copy_of_each_library_is_loaded(first: str) -> None:
    code = f"import {first}, relaylite.engine.native\n"
    code += "print(*{line.split()[-1] for line in open('/proc/self/maps') if '/lib' in line}, sep='\\n')"
    loaded = [Path(line) for line in run(code).splitlines()]
    for library in ("libllama.so", "libggml.so", "libggml-base.so", "libggml-cpu.so"):
        copies = [path.name for path in loaded if path.name.startswith(library)]
        assert len(copies) == 1, f"{library}: {copies}"


@pytest.mark.skipif(sys.platform != "linux", reason="macOS needs the name of every library")
def test_the_extension_finds_ggml_through_libllama_alone() -> None:
    """In a llama-cpp-python whose wheel auditwheel repaired, libllama may use a ggml of another name: ours must be that one."""
    spec = find_spec("relaylite._native")
    assert spec is not None and spec.origin is not None
    named = Path(spec.origin).read_bytes()
    assert b"\0libllama.so.0\0" in named and b"\0libggml" not in named


def loaded_with(monkeypatch: pytest.MonkeyPatch, built: str, version: str = native.LLAMA_CPP_PYTHON) -> None:
    """An extension that was built against another commit, or another llama-cpp-python."""
    commit, overhead = native.ffi.new("char[]", built.encode()), native.lib.relay_built_tensor_overhead()
    built_with = SimpleNamespace(relay_built_commit=lambda: commit, relay_built_tensor_overhead=lambda: overhead)
    monkeypatch.setattr(native, "lib", built_with)
    monkeypatch.setattr(native.llama_cpp, "__version__", version)


def commit() -> str:
    """Of the installed llama.cpp, without what tells how it was compiled."""
    return native._source(native.text_of(native.lib.relay_built_commit()))


@pytest.mark.parametrize(
    ("built", "version"), [("0badc0de", LLAMA_CPP_PYTHON), ("0badc0de-dirty", LLAMA_CPP_PYTHON), ("unknown", "0.3.35")]
)
def test_another_build_of_llama_cpp_is_one_line(built: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    native.check_build()
    loaded_with(monkeypatch, built, version)
    with pytest.raises(NativeError) as caught:
        native.check_build()
    message = str(caught.value)
    expected = f"that of {LLAMA_CPP_PYTHON}" if built == "unknown" else "0badc0de:"
    assert f"relaylite was built against {expected}" in message and message.endswith(install_command())
    assert "\n" not in message


@pytest.mark.parametrize("suffix", ["", "-dirty"])
def test_the_same_sources_compiled_another_way_are_the_same_build(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ready-made wheel, one that pip compiled, and one that was compiled where there is no git."""
    for built in (commit() + suffix, "unknown"):
        loaded_with(monkeypatch, built)
        native.check_build()


def test_a_llama_cpp_with_other_tensors_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded_with(monkeypatch, commit())
    native.check_build()
    overhead = native.lib.relay_built_tensor_overhead() + 64
    monkeypatch.setattr(native.lib, "relay_built_tensor_overhead", lambda: overhead)
    with pytest.raises(NativeError, match=r"lays out its tensors otherwise .*: run pip install") as caught:
        native.check_build()
    assert "\n" not in str(caught.value)


def test_an_extension_that_does_not_load_is_one_line() -> None:
    code = """
import sys
import relaylite
sys.modules["relaylite._native"] = None
try:
    import relaylite.engine.native
except Exception as error:
    print(type(error).__name__, error)
"""
    message = run(code)
    assert message.startswith("NativeError relaylite's extension does not load") and "\n" not in message


@pytest.fixture(scope="module")
def renamer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler, spec = shutil.which("cc"), find_spec("llama_cpp")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("needs LD_PRELOAD and a C compiler")
    assert spec is not None and spec.origin is not None
    library = tmp_path_factory.mktemp("renamer") / "renamer.so"
    headers = Path(spec.origin).parent.parent / "include"
    source = Path(__file__).with_name("renamed_nodes.c")
    subprocess.run([compiler, "-shared", "-fPIC", f"-I{headers}", str(source), "-o", str(library)], check=True)
    return library


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("Qcur", "relays"),
        ("ffn_", "relays"),
        ("l_out-0", "the graph has no node l_out-0"),
        ("l_out-1", "the graph has no node l_out-1"),
        ("result_output", "the graph has no node result_output"),
        ("cache_k_l", "refused: layer 0 keeps no rows"),
        ("cache_v_l1", "refused: layer 1 keeps K and V as one compressed row (MLA)"),
        ("inp_tokens", "layer 0 has rows that depend on their position other than by RoPE on K (other_inp_tokens)"),
        ("inp_pos", "the graph has an input that is not known here: other_inp_pos"),
        ("attn_inp_k_idxs", "the graph has an input that is not known here: other_attn_inp_k_idxs"),
        ("attn_inp_kq_mask", "the graph has an input that is not known here: other_attn_inp_kq_mask"),
        ("out_ids", "the graph has an input that is not known here: other_out_ids"),
    ],
)
def test_a_name_that_is_gone_is_one_line_at_open(name: str, outcome: str, renamer: Path, tiny_path: Path) -> None:
    preloaded = ":".join(filter(None, [os.environ.get("LD_PRELOAD"), str(renamer)]))
    assert run(OPEN_AND_CHECK, str(tiny_path), LD_PRELOAD=preloaded, RENAMED=name) == outcome
