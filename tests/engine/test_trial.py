"""A file that was never opened here is tried in a process of its own: whatever llama.cpp does there is one line here."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.live_engine import LiveEngine
from support.tiny_models import ABORTING, write_adapter, write_damaged, write_model

from relaylite.engine import native
from relaylite.engine.engine import Engine
from relaylite.engine.options import EngineOptions
from relaylite.engine.trial import passed, process
from relaylite.errors import Cancelled, ModelError, ModelFileError
from relaylite.gguf.catalog import resolve_model
from relaylite.settings.settings import load_settings
from relaylite.tui.engine.opener import ModelOpener, Progress

ADVICE = "download it again, or name another file"
SOON_S = 2.0  # a second, and some for a busy machine


@pytest.fixture(autouse=True)
def _nothing_counts_as_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed, "holds", lambda mark: mark in passed._read())


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Every process that a test starts."""
    found: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def noted(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        found.append(start(*args, **options))
        return found[-1]

    monkeypatch.setattr(process.subprocess, "Popen", noted)
    return found


def opened(path: Path, **options: Any) -> None:
    Engine.open(path, EngineOptions(n_ctx=256, n_threads=1, **options)).close()


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        opened(path, **options)
    text = str(caught.value)
    assert "\n" not in text and path.name in text and len(text) < 500
    return text


def child_that(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Trials run `code` in place of opening the file."""
    begun = 'import sys, os, time, signal; print(\'{"said": "begun", "text": ""}\', flush=True); '
    monkeypatch.setattr(process, "_CODE", begun + code)


NAN = float("nan")
KEYS = (
    "attention.head_count",
    "attention.key_length",
    "block_count",
    "rope.dimension_count",
    "attention.sliding_window",
    "attention.layer_norm_rms_epsilon",
)
DEADLY = [
    ("llama", "block_count", 2**32 - 1),
    ("llama", "attention.layer_norm_rms_epsilon", NAN),
    ("qwen2", "attention.head_count", 1),
    ("qwen2", "attention.head_count", 2**32 - 1),
    ("qwen2", "attention.key_length", 0),
    ("qwen2", "rope.dimension_count", 3),
    ("gemma3", "attention.layer_norm_rms_epsilon", NAN),
]


@pytest.mark.parametrize(("arch", "key", "value"), DEADLY)
def test_a_header_that_ends_llama_is_one_line(arch: str, key: str, value: object, tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", arch, n_layer=2, metadata={f"{arch}.{key}": value})
    text = refusal(path)
    assert "makes llama.cpp end the process (" in text and "GGML_ASSERT" in text and text.endswith(ADVICE)
    assert "/" not in text.partition("(")[2].partition(")")[0], "folders of the machine that compiled it"


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    arch=st.sampled_from(["llama", "qwen2", "gemma3"]),
    key=st.sampled_from(KEYS),
    value=st.sampled_from([0, 1, 3, 2**31, 2**32 - 1, 0.0, -1.0, NAN, [1, 1], [1e-5] * 2]),
)
def test_any_odd_value_is_one_line_or_a_model_that_computes(
    arch: str, key: str, value: object, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python tests/fuzz headers --minutes 10` tries far more."""
    monkeypatch.setattr(process, "LEAST_LIMIT_S", 30.0)  # with some, llama.cpp goes on for ever
    path = write_model(tmp_path_factory.mktemp("odd") / "m.gguf", arch, n_layer=2, metadata={f"{arch}.{key}": value})
    try:
        engine = Engine.open(resolve_model(path), EngineOptions(n_ctx=256, n_threads=1))
    except ModelError as error:
        assert "\n" not in str(error)
        return
    live = LiveEngine(engine)
    assert live.full(live.tokens(20)).shape == (engine.info.n_vocab,)
    engine.close()


@pytest.mark.parametrize("damage", ABORTING)
def test_damage_that_ends_llama_is_one_line(damage: str, tmp_path: Path) -> None:
    assert ADVICE in refusal(write_damaged(tmp_path / "m.gguf", damage))


@pytest.mark.parametrize("damage", ["no-tokens", "layers-without-weights"])
def test_what_llama_refuses_is_said_as_without_a_trial(damage: str, tmp_path: Path) -> None:
    path = write_damaged(tmp_path / "m.gguf", damage)
    assert refusal(path) == refusal(path, trial=False)


# once


def test_a_file_is_tried_once_however_it_is_named(tiny_path: Path, tmp_path: Path, started: list[Any]) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_path.read_bytes())
    notices: list[str] = []
    opened(path, on_notice=notices.append)
    assert len(started) == 1
    [notice, end] = notices
    assert "m.gguf" in notice and "never opened here" in notice and end == ""
    opened(path, on_notice=notices.append)
    path = path.rename(tmp_path / "other.gguf")
    opened(path, on_notice=notices.append)
    assert len(started) == 1 and len(notices) == 2


def test_other_content_another_build_other_rows_and_an_adapter_are_tried(
    tmp_path: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_model(tmp_path / "m.gguf", "llama", n_layer=1)
    opened(path)
    opened(path, kv_type="q8_0")
    opened(path, lora=(str(write_adapter(tmp_path / "a.gguf", path)),))
    write_model(path, "llama", n_layer=1, seed=1)
    opened(path)
    monkeypatch.setattr(native, "build", lambda: "another")
    opened(path)
    assert len(started) == 5


def test_a_file_that_failed_is_tried_again(tmp_path: Path, started: list[Any]) -> None:
    path = write_damaged(tmp_path / "m.gguf", "no-layers")
    assert refusal(path) == refusal(path)
    assert len(started) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[3]", b"\xff\xfe\x00", b"[" * 100_000])
def test_a_damaged_list_of_trials_costs_a_trial_and_is_mended(content: bytes, tiny_path: Path, started: list[Any]) -> None:
    passed.add("some mark")
    passed._file().write_bytes(content)
    opened(tiny_path)
    opened(tiny_path)
    assert len(started) == 1


# stopping


@pytest.mark.parametrize("error", [Cancelled("stopped"), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_what_the_reader_of_progress_raises_ends_the_child(
    error: BaseException, tiny_path: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    child_that(monkeypatch, "time.sleep(60)")
    raised_s = []

    def on_progress(fraction: float) -> None:
        assert fraction == 0.0
        if started and time.monotonic() > began + 0.5:
            raised_s.append(time.monotonic())
            raise error

    began = time.monotonic()
    with pytest.raises(type(error)) as caught:
        opened(tiny_path, on_progress=on_progress)
    assert caught.value is error and time.monotonic() - raised_s[0] < SOON_S
    assert started[0].wait(SOON_S) != 0


def test_a_child_that_does_not_end_is_ended(tiny_path: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    child_that(monkeypatch, "time.sleep(60)")
    monkeypatch.setattr(process, "LEAST_LIMIT_S", 0.5)
    assert "was not open after" in refusal(tiny_path)
    assert started[0].wait(SOON_S) != 0


ORPHAN = """
import sys
from pathlib import Path
from relaylite.engine.engine import Engine
from relaylite.engine.options import EngineOptions
from relaylite.engine.trial import process
process._CODE = process._CODE.removesuffix("main()") + "import time, relaylite.engine.trial.child as child;"
process._CODE += "child._attempt = lambda *_: time.sleep(60); main()"
start = process.subprocess.Popen
def noted(*args, **options):
    child = start(*args, **options)
    print(child.pid, flush=True)
    return child
process.subprocess.Popen = noted
Engine.open(Path(sys.argv[1]), EngineOptions(n_threads=1))
"""


def test_a_child_ends_with_its_parent(tiny_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", ORPHAN, str(tiny_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    time.sleep(1)
    assert is_running(child)
    parent.kill()
    parent.wait()
    ends = time.monotonic() + 30
    while is_running(child) and time.monotonic() < ends:
        time.sleep(0.1)
    assert not is_running(child)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# what else may happen


def test_a_child_that_the_system_ends_says_nothing_against_the_file(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child_that(monkeypatch, "os.kill(os.getpid(), signal.SIGKILL)")
    text = refusal(tiny_path)
    assert "memory" in text and ADVICE not in text


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("print('terminate called\\n  what():  vector::_M_range_check', file=sys.stderr); os.abort()", "SIGABRT, vector::_M_range_check"),
        ("os._exit(7)", "exit code 7"),
    ],
)
def test_how_a_child_died_is_said(code: str, reason: str, tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child_that(monkeypatch, code)
    assert f"makes llama.cpp end the process ({reason})" in refusal(tiny_path)


def test_an_error_in_the_child_is_one_line(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child_that(monkeypatch, 'print(\'{"said": "ValueError", "text": "two\\\\nlines"}\')')
    assert "cannot be opened (ValueError: two lines)" in refusal(tiny_path)


def no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")


def no_such_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nosuch/python")


def child_without_our_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_CODE", "import nosuchmodule")


@pytest.mark.parametrize("prevent", [no_python, no_such_python, child_without_our_modules])
def test_where_no_child_can_be_started_the_file_is_opened_and_the_log_says_so(
    prevent: Callable[[pytest.MonkeyPatch], None], tiny_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prevent(monkeypatch)
    with caplog.at_level(logging.WARNING, "relaylite.trial"):
        opened(tiny_path)
    assert len([record for record in caplog.records if "opened without a trial" in record.message]) == 1
    assert passed._read() == []


def test_a_trial_looks_for_modules_where_this_process_does(tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that somebody is in may hold a numpy.py of its own."""
    (tmp_path / "numpy.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH")
    opened(tiny_path)
    assert passed._read()


SCRIPT = """
import sys
from relaylite import Relay
from relaylite.errors import ModelFileError
try:
    Relay(sys.argv[1], n_threads=1)
except ModelFileError as error:
    print("refused")
print(sys.stdin.read())
"""


def test_a_trial_reads_no_input_and_writes_nothing(tmp_path: Path) -> None:
    path = write_damaged(tmp_path / "m.gguf", "no-tokens")
    write_model(path, "llama", metadata={"llama.attention.layer_norm_rms_epsilon": NAN})
    command = [sys.executable, "-c", SCRIPT, str(path)]
    done = subprocess.run(command, input="for the script", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "refused\nfor the script\n", "")
    assert not list(tmp_path.glob("core*"))


# all doors


@pytest.fixture
def deadly(tmp_path: Path) -> Path:
    return write_model(tmp_path / "m.gguf", "llama", metadata={"llama.attention.layer_norm_rms_epsilon": NAN})


def test_several_threads_may_try_at_once(deadly: Path, tiny_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        tries = [pool.submit(opened, path) for path in (deadly, tiny_path, deadly)]
    assert [type(each.exception()) for each in tries] == [ModelFileError, type(None), ModelFileError]


def test_the_command_line_says_one_line(deadly: Path) -> None:
    command = [sys.executable, "-m", "relaylite", "run", "--model", str(deadly), "Say hello."]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("relaylite: ") and line.endswith(ADVICE)


def test_the_app_shows_the_trial_and_gets_one_line(deadly: Path) -> None:
    seen: list[Progress] = []
    with ThreadPoolExecutor() as pool:
        error = pool.submit(ModelOpener(load_settings()).open, str(deadly), seen.append).exception()
    assert isinstance(error, ModelFileError)
    assert any("never opened here" in progress.stage and progress.fraction is None for progress in seen)


def test_it_can_be_left_out(tiny_path: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYLITE_TRIAL", "false")
    assert load_settings().relay_options()["trial"] is False
    opened(tiny_path, trial=False)
    assert not started
