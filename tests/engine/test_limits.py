"""Prompts and contexts at their limits, and memory that is not there: one line each, and an engine that goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.live_engine import LiveEngine, Taken, changed, opened, plan_of
from support.tiny_models import write_model

from relaylite.engine.engine import Engine
from relaylite.engine.options import EngineOptions
from relaylite.errors import ContextOverflow, ModelError, NativeError, UsageError
from relaylite.reuse.plan import Kind
from relaylite.reuse.policies import FULL, NAIVE, PREFIX
from relaylite.sampling import Sampling


@pytest.mark.parametrize("asked", [1, 64, 255, 256])
def test_a_small_context_is_what_llama_makes_of_it(asked: int, tiny_path: Path) -> None:
    with opened(tiny_path, n_ctx=asked) as live:
        assert live.engine.info.n_ctx == 256
        live.full(live.tokens(255))
        writer = live.engine.generate(Sampling(max_tokens=5))
        assert len(list(writer)) == 1 and writer.finish_reason == "length"


@pytest.mark.parametrize("n", [256, 257, 5000])
def test_a_prompt_that_leaves_no_room_for_an_answer_is_refused_with_both_numbers(n: int, tiny_path: Path) -> None:
    with opened(tiny_path, n_ctx=256) as live:
        tokens = live.tokens(30)
        before = live.full_rows(tokens)
        with pytest.raises(ContextOverflow, match=f"prompt of {n} tokens .* context of 256"):
            live.prefill(plan_of(FULL, live.tokens(n)))
        assert np.array_equal(live.engine.harvest("").data, before.data)


def test_a_prompt_of_taken_rows_fills_the_context_to_the_last_cell_but_one(tiny_path: Path) -> None:
    with opened(tiny_path, n_ctx=256, kv_type="f32") as live:
        rows = live.full_rows(live.tokens(250))
        plan = plan_of(NAIVE, [40], Taken(rows, 0, 250), live.tokens(4, 1))
        assert len(live.rows(plan)) == 255
        assert len(live.generate(5)) == 1


def test_a_context_that_is_rounded_up_is_said(tiny_path: Path) -> None:
    with opened(tiny_path, n_ctx=64) as live:
        [warning] = live.engine.info.warnings
        assert "256 tokens" in warning and "rounds 64 up" in warning
    with opened(tiny_path, n_ctx=512) as live:
        assert live.engine.info.warnings == ()


def test_a_context_beyond_the_trained_one_is_warned_of(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", "llama", n_layer=1, metadata={"llama.context_length": 512})
    with opened(path, n_ctx=512) as live:
        assert live.engine.info.warnings == ()
    with opened(path, n_ctx=1024) as live:
        [warning] = live.engine.info.warnings
        assert "1024" in warning and "512" in warning
        live.full(live.tokens(600))


def test_tokens_that_the_vocabulary_lacks_are_an_error_and_not_a_crash(tiny: LiveEngine) -> None:
    rows = tiny.written()
    for plan in (plan_of(FULL, [5, 10**6]), plan_of(FULL, [-1]), plan_of(NAIVE, [10**6], Taken(rows, 24), [30])):
        with pytest.raises(NativeError) as caught:
            tiny.prefill(plan)
        assert "\n" not in str(caught.value)
        assert len(tiny.engine.harvest("")) == 0
    tiny.full(tiny.tokens(9))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_ctx": 0}, "context of 0"),
        ({"n_ctx": -5}, "context of -5"),
        ({"n_ctx": 1 << 30}, "--ctx 1 to"),
        ({"n_ctx": "12"}, "n_ctx must be a whole number, not '12'"),
        ({"n_ctx": 512.0}, "n_ctx must be a whole number, not 512.0"),
        ({"n_ctx": True}, "n_ctx must be a whole number, not True"),
        ({"n_threads": 0}, "0 threads"),
        ({"n_threads": 513}, "give --threads 1 to 512"),
        ({"n_threads": "2"}, "n_threads must be a whole number"),
        ({"n_gpu_layers": -7}, "-7 layers"),
        ({"n_gpu_layers": 2**31}, "2147483648 layers"),
        ({"n_gpu_layers": None, "kept_state_bytes": -1}, "kept_state_bytes must be 0 bytes or more"),
        ({"rpc": (1,)}, "rpc must be texts"),
        ({"lora": "a.gguf"}, "lora must be texts"),
        ({"chat_template": None}, "chat_template must be"),
        ({"relay": [1]}, "relay must be parameters by their names"),
        ({"kv_type": ["f16"]}, "unknown kv_type"),
        ({"on_progress": 3}, "on_progress must be a function"),
        ({"kv_type": "f64"}, "unknown kv_type 'f64'; known: f16, f32"),
        ({"relay": {"l_start": 9, "l_det": 9, "l_end": 9}}, "beyond this model's 4 layers"),
        ({"relay": {"nosuch": 1}}, "unknown relay parameter"),
    ],
)
def test_impossible_options_are_one_line(options: dict[str, object], says: str, tiny_path: Path) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        Engine.open(tiny_path, EngineOptions(**options))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_profile_for_other_layers_is_refused_and_changes_nothing(tiny: LiveEngine) -> None:
    rows, before = tiny.full_rows(tiny.tokens(9)), tiny.engine.profile
    with pytest.raises(UsageError, match="beyond this model's 4 layers"):
        tiny.relay_by(changed({"l_start": 9, "l_det": 9}))
    assert tiny.engine.profile is before and len(tiny.engine.harvest("")) == len(rows)


def test_a_model_without_a_chat_template_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", "llama", n_layer=1, template=None)
    with pytest.raises(UsageError, match="chatml"):
        Engine.open(path, EngineOptions(n_threads=1))
    with opened(path, chat_template="chatml") as live:
        assert live.engine.template


def test_a_file_that_vanishes_while_it_is_opened_is_one_line(tiny_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_path.read_bytes())

    def vanish(fraction: float) -> None:
        path.unlink(missing_ok=True)

    with pytest.raises(ModelError, match=r"cannot read .*m\.gguf: No such file"):
        Engine.open(path, EngineOptions(n_threads=1, on_progress=vanish))


# memory


UNDER_LIMIT = """
import resource, sys
from pathlib import Path
from relaylite.engine import native
from relaylite.engine.engine import Engine
from relaylite.engine.options import EngineOptions
from relaylite.errors import RelayliteError
native.extra_buffers_work()  # starts a child process, which a limit would hit too
mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + int(sys.argv[3]) * 10**6,) * 2)
try:
    Engine.open(Path(sys.argv[1]), EngineOptions(n_ctx=int(sys.argv[2]), n_threads=1))
except RelayliteError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("n_ctx", "megabytes", "says"),
    [
        (2_000_128, 600, "ModelError a context of 2000128 tokens needs about 6,"),
        (2048, 130, "ModelError a context of 2048 tokens needs about 1"),
        *((2048, megabytes, "ModelError loading ") for megabytes in (1, 20, 40, 60, 80)),
    ],
)
def test_out_of_memory_is_one_line_that_says_how_much_was_needed(n_ctx: int, megabytes: int, says: str, tiny_path: Path) -> None:
    """On most systems nothing is refused: the process would be ended while llama.cpp clears the cache."""
    command = [sys.executable, "-c", UNDER_LIMIT, str(tiny_path), str(n_ctx), str(megabytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    assert line.startswith(says) and " MB" in line


def test_prefix_rows_beyond_the_context_are_refused(tiny_path: Path, tiny: LiveEngine) -> None:
    rows = tiny.full_rows(tiny.tokens(300))
    with opened(tiny_path, n_ctx=256, kv_type="f32") as live, pytest.raises(ContextOverflow):
        live.prefill(plan_of(PREFIX, Taken(rows, kind=Kind.PREFIX), [30]))
