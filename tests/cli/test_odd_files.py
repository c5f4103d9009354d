"""Files that are not what they should be: pipes, devices, marks and NUL in them, names that cannot be, no home folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import Invoke, one_line
from support.fakes import FakeEngine

from relaylite import paths
from relaylite.chain.attachments import read_attachment
from relaylite.gguf import fingerprint
from relaylite.reuse.profile import default_profile, load_profile

pytestmark = pytest.mark.timeout(60)  # a pipe that is waited for
BOM = "\ufeff"


def pipe_at(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("name", ["config", "agents"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_device_in_place_of_a_toml_file_is_one_line(invoke: Invoke, name: str, kind: str) -> None:
    file = paths.settings_file() if name == "config" else paths.agents_file()
    pipe_at(file)
    if kind == "device":
        file.unlink()
        file.symlink_to("/dev/zero")
    result = invoke("run", "Do.")
    assert result.exit_code == 2 and "no regular file" in one_line(result)


def test_a_mark_before_toml_and_before_the_first_line_is_none(invoke: Invoke, engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "relaylite.toml").write_text(f'{BOM}agents = ["plan"]\r\n', encoding="utf-8")
    result = invoke("chat", "-q", "-p", "full", input=f"{BOM}/policy prefix\n{BOM}hello\n".encode())
    assert (result.exit_code, result.stdout) == (0, "## plan\nUnderstood.\n") and engine.plans[0].policy.name == "prefix"
    assert f"{BOM}hello" in engine.tokenizer.text(engine.plans[0].tokens), "only the first line can have a mark"


@pytest.mark.parametrize("name", ["model", "agents_file", "chat_template", "lora"])
def test_nul_in_a_setting_is_one_line(invoke: Invoke, tmp_path: Path, name: str) -> None:
    (tmp_path / "relaylite.toml").write_text(f'{name} = "a\\u0000b"', encoding="utf-8")
    result = invoke("run", "Do.")
    assert result.exit_code == 2 and f"relaylite.toml: {name} must be" in one_line(result)


def test_pipes_in_place_of_what_is_kept_are_passed_over(tmp_path: Path) -> None:
    pipe_at(paths.cache_folder() / "fingerprints.json")
    file = tmp_path / "model"
    file.write_bytes(b"weights")
    assert fingerprint.of_file(file) == fingerprint.of_file(file)
    pipe_at(paths.profiles_folder() / "abc.json")
    assert load_profile("abc", 30) == default_profile("abc", 30)


def test_deep_json_in_what_is_kept_is_passed_over(tmp_path: Path) -> None:
    for kept in (paths.cache_folder() / "fingerprints.json", paths.profiles_folder() / "abc.json"):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("[" * 100_000)
    (tmp_path / "model").write_bytes(b"weights")
    assert fingerprint.of_file(tmp_path / "model") and load_profile("abc", 30) == default_profile("abc", 30)


def test_a_user_may_name_a_pipe_but_no_device_without_an_end(invoke: Invoke, engine: FakeEngine) -> None:
    code = (
        f"import sys; from pathlib import Path; from relaylite.cli.tasks import read_task; print(read_task(None, Path({'/dev/stdin'!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], input="a task", capture_output=True, text=True, check=True)
    assert done.stdout == "a task\n"
    for option in ("--task-file", "--file"):
        result = invoke("run", *([] if option == "--task-file" else ["Do."]), option, "/dev/zero")
        assert result.exit_code == 2 and "/dev/zero: it is no regular file" in one_line(result)


@pytest.mark.parametrize(
    "word",
    ["@media(max-width:100px){a{color:red}}" * 20, "@" + "x" * 300, "@" + "y" * 5000, "@a\0b", "@notes.md/x"],
)
def test_what_cannot_be_a_file_is_text(invoke: Invoke, engine: FakeEngine, tmp_path: Path, word: str) -> None:
    (tmp_path / "notes.md").write_text("SOME NOTES")
    result = invoke("chat", "-a", "plan", "--ctx", "8192", "-n", "8", input=f"{word[:3000]}\nand now?\n")
    assert result.exit_code == 0 and len(engine.plans) == 2
    [note] = [line for line in result.stderr.splitlines() if "no file here for" in line]
    assert len(note) < 100, "a long word is not repeated whole"


def test_many_words_without_a_file_are_not_all_named(invoke: Invoke, engine: FakeEngine) -> None:
    result = invoke("chat", "-a", "plan", input=" ".join(f"@w{i}" for i in range(50)) + "\n")
    assert "note: no file here for @w0, @w1, @w2, @w3 and 46 more: sent as text\n" in result.stderr


def test_a_folder_that_cannot_be_searched_holds_no_attachment(invoke: Invoke, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    is_file = Path.is_file

    def refused(path: Path) -> bool:
        if path.name == "x.md":
            raise PermissionError(13, "Permission denied")
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refused)
    result = invoke("chat", "-a", "plan", input="see @locked/x.md\n")
    assert result.exit_code == 0 and "no file here for @locked/x.md" in result.stderr


def test_files_wait_for_a_message_that_is_not_refused(invoke: Invoke, engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("SOME NOTES")
    result = invoke("chat", "-a", "plan", "--file", "notes.md", "-p", "full", input="x" * 5000 + "\nshort\nlast\n")
    assert result.exit_code == 2
    first, second = (engine.tokenizer.text(plan.tokens) for plan in engine.plans)
    assert first.count("SOME NOTES") == second.count("SOME NOTES") == 1


def test_a_file_name_that_is_no_text_is_attached_and_named_in_errors(invoke: Invoke, engine: FakeEngine, tmp_path: Path) -> None:
    name = os.fsdecode(b"n\xf6tes.md")
    assert "n\\xf6tes.md" in one_line(invoke("run", "Do.", "--file", name))
    (tmp_path / name).write_text("SOME NOTES")
    assert read_attachment(name).source == "n\ufffdtes.md"
    assert invoke("run", "Do.", "--file", name).exit_code == 0
    assert "SOME NOTES" in engine.tokenizer.text(engine.plans[0].tokens)


NO_HOME = """
import os, pwd
def nobody(*_): raise KeyError("nobody")
pwd.getpwuid = pwd.getpwnam = nobody
os.environ.pop("HOME", None)
from relaylite.cli import main
main()
"""


def without_home(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", NO_HOME, *args], capture_output=True, text=True, check=False)


def test_a_user_without_a_home_needs_a_variable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert without_home("config", "--json").returncode == 0
    monkeypatch.delenv(paths.HOME_VARIABLE)
    done = without_home("config", "--json")
    assert done.returncode == 2 and json.loads(done.stdout)["error"] in done.stderr and done.stderr.count("\n") == 1
    assert "no home folder; set RELAYLITE_HOME" in done.stderr
    found = {each["name"]: each["status"] for each in json.loads(without_home("doctor", "--quick", "--json").stdout)}
    assert found["data folder"] == found["settings"] == "problem" and found["python"] == "ok"


def test_doctor_reports_a_folder_that_cannot_be_looked_into_and_goes_on(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RELAYLITE_HOME", str(tmp_path / ("x" * 300)))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / ("y" * 300)))
    result = invoke("doctor", "--quick", "--json")
    found = {each["name"]: each for each in json.loads(result.stdout)}
    assert result.exit_code == 1 and found["data folder"]["value"].endswith("File name too long")
    assert {found[name]["status"] for name in ("settings", "agents", "cache folder", "models folder")} == {"problem"}
    assert found["default model"]["status"] == "ok"


def test_doctor_asks_the_hub(invoke: Invoke) -> None:
    found = {each["name"]: each for each in json.loads(invoke("doctor", "--quick", "--json").stdout)}
    assert found["model hub"]["status"] == "note" and "http://127.0.0.1:9 does not answer" in found["model hub"]["value"]
