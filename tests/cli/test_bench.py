"""`bench` and `profile` through the real command, on a tiny model."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from support.commands import Invoke, one_line
from support.tiny_models import write_model

from relaylite import paths
from relaylite.bench.measuring import Meter
from relaylite.calibrate import grid
from relaylite.gguf import fingerprint
from relaylite.reuse.policies import FIDELITIES
from relaylite.reuse.profile import Profile, RelayParameters, load_profile, save_profile

N_LAYER = 3
FAST = ("--threads", "1", "--max-tokens", "40")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_model(tmp_path_factory.mktemp("models") / "llama.gguf", "llama", n_layer=N_LAYER))


@pytest.fixture
def small_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few parameters: what is tried is tested elsewhere."""
    monkeypatch.setattr(grid, "DEPTHS", (0.0, 0.4))
    monkeypatch.setattr(grid, "RUNS", ((0.0, 0.4),))
    monkeypatch.setattr(grid, "AMOUNTS", (0.05, 0.18, 0.3))
    monkeypatch.setattr(grid, "ATTENDED", (0.0, 1.0))


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    file = tmp_path / "tasks.jsonl"
    entries = [{"question": f"How much is {n} and {n}?", "answer": f"It is\n#### {2 * n}"} for n in range(1, 9)]
    file.write_text("\n".join(map(json.dumps, entries)), encoding="utf-8")
    return str(file)


def test_bench_prints_one_document(invoke: Invoke, tiny: str, tasks: str, tmp_path: Path) -> None:
    folder = tmp_path / "plots"
    args = ("--policies", "prefix,relay", "--agents", "plan,check", "--n", "1", "--json", "--plots", str(folder))
    result = invoke("bench", "-m", tiny, "--tasks", tasks, *FAST, *args)
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert [row["policy"] for row in report["rows"]] == ["full", "naive", "prefix", "relay", "full again"]
    assert all(row["n"] == report["n_prompts"] > 0 for row in report["rows"])
    assert report["error"] is None and report["tasks"] == {"file": "tasks.jsonl", "kind": "gsm8k", "chains": 1}
    assert report["model"]["n_layer"] == N_LAYER and report["settings"]["is_warm"] and report["versions"]["llama-cpp-python"]
    assert report["rows"][1]["accuracy"]["n"] == 1
    assert [path.name for path in folder.iterdir()] == ["speed-fidelity.svg"]


def test_bench_over_lengths_draws_them(invoke: Invoke, tiny: str, tasks: str) -> None:
    lengths = ("--policies", "naive", "--n", "1", "--no-answers", "--relayed", "64,36", "--json")
    result = invoke("bench", "-m", tiny, "--tasks", tasks, *FAST, *lengths, "--max-tokens", "96", "--plots", "plots")
    assert result.exit_code == 0, result.stderr
    assert [group["relayed_tokens"] for group in json.loads(result.stdout)["groups"]] == [36, 64]
    for name in ("speed-fidelity", "ttft-length"):
        assert ElementTree.parse(f"plots/{name}.svg").getroot().tag.endswith("svg")


def test_bench_shows_tables(invoke: Invoke, tiny: str, tasks: str) -> None:
    result = invoke(
        "bench", "-m", tiny, "--tasks", tasks, *FAST, "--n", "1", "--policies", "naive", "--agents", "plan,check", "--no-answers", "--cold"
    )
    assert result.exit_code == 0, result.stderr
    head, names, *rows = result.stdout.splitlines()
    assert head.startswith("all: 1 prompts of ") and names.startswith("policy ") and "right" not in names
    assert [row.split("  ")[0] for row in rows if row] == ["full", "naive", "full again"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--policies", "none"), "unknown policy 'none'"),
        (("--agents", "plan"), "needs two agents"),
        (("--relayed", "5"), "32 tokens or more"),
        (("--relayed", "a,b"), "no number of tokens"),
    ],
)
def test_bench_refuses_in_one_line(invoke: Invoke, tiny: str, tasks: str, args: tuple[str, ...], said: str) -> None:
    result = invoke("bench", "-m", tiny, "--tasks", tasks, *FAST, *args)
    assert result.exit_code == 2 and said in one_line(result)


@pytest.mark.parametrize(
    ("own", "policy", "is_fit"),
    [
        (RelayParameters(1, 2, N_LAYER, "value"), "relay+l_start=0+l_det=1", True),
        (RelayParameters(1, 1, N_LAYER, "attention"), "relay+l_start=0+l_det=1", False),
        (RelayParameters(1, 1, N_LAYER, "attention"), "relay+l_start=0+l_det=0", True),
        (RelayParameters(1, 2, N_LAYER, "value"), "relay+l_start=0+l_det=0", False),
        (RelayParameters(1, 1, N_LAYER, "attention"), "relay+attended=1", True),
        (RelayParameters(1, 2, N_LAYER, "value"), "relay+attended=0.5+tau=0", True),
    ],
)
def test_changed_parameters_are_checked_against_the_profile_of_the_model(
    own: RelayParameters, policy: str, is_fit: bool, invoke: Invoke, tiny: str, tasks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_profile(Profile(fingerprint.of_file(Path(tiny)), dict.fromkeys(FIDELITIES, own)))
    ran: list[str] = []
    samples = Meter.samples
    monkeypatch.setattr(Meter, "samples", lambda *args: ran.append("a prompt") or samples(*args))
    chain = ("--agents", "plan,check", "--n", "1", "--no-answers")
    result = invoke("bench", "-m", tiny, "--tasks", tasks, *FAST, *chain, "--policies", policy)
    if is_fit:
        assert result.exit_code == 0 and f"\n{policy} " in result.stdout and ran
    else:
        said = one_line(result)
        assert result.exit_code == 2 and policy in said and f"detector {own.detector}" in said and not ran


@pytest.mark.parametrize("policy", ["none", "relay+size=2", "relay+lead=x", "random:2", "relay@zip"])
def test_what_no_model_allows_is_said_before_one_is_opened(invoke: Invoke, tasks: str, policy: str) -> None:
    result = invoke("bench", "-m", "missing.gguf", "--tasks", tasks, "--policies", policy)
    assert result.exit_code == 2 and "missing.gguf" not in one_line(result)


def test_bench_without_tasks_and_with_none_in_the_file(invoke: Invoke, tiny: str, tmp_path: Path) -> None:
    assert "--tasks" in one_line(invoke("bench", "-m", tiny))
    (tmp_path / "empty").write_text("\n")
    assert "holds no tasks" in one_line(invoke("bench", "-m", tiny, "--tasks", "empty"))


def test_a_failing_bench_says_why_in_its_document(invoke: Invoke, tiny: str, tasks: str) -> None:
    result = invoke("bench", "-m", tiny, "--tasks", tasks, "--json", "--ctx", "64", "--threads", "1")
    assert result.exit_code == 2
    report = json.loads(result.stdout)
    assert report["rows"] == [] and "--ctx" in report["error"] and report["error"] in result.stderr


@pytest.mark.usefixtures("small_grid")
def test_profile_is_kept_where_runs_find_it(invoke: Invoke, tiny: str, tasks: str, tmp_path: Path) -> None:
    result = invoke("profile", tiny, "--tasks", tasks, "--chains", "4", "--threads", "1", "--svg", "curve.svg")
    assert result.exit_code == 0, result.stderr
    [file] = paths.profiles_folder().iterdir()
    assert str(file) in result.stderr
    profile = load_profile(file.stem, N_LAYER)
    assert profile.is_measured and profile == Profile.from_json(file.read_text())
    assert "x K, rotated" in result.stdout and all(fidelity in result.stdout for fidelity in ("fast", "balanced", "careful"))
    assert "mean cosine" in (tmp_path / "curve.svg").read_text()


@pytest.mark.usefixtures("small_grid")
def test_profile_can_be_written_elsewhere(invoke: Invoke, tiny: str, tasks: str, tmp_path: Path) -> None:
    result = invoke("profile", tiny, "--tasks", tasks, "--chains", "4", "--threads", "1", "--out", "it.json", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == json.loads((tmp_path / "it.json").read_text()) and not paths.profiles_folder().exists()
