"""Settings: precedence, where a value came from, and what is said of a value or a key that does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from relaylite import paths
from relaylite.errors import UsageError
from relaylite.sampling import Sampling
from relaylite.settings import settings
from relaylite.settings.settings import Settings, load_settings
from relaylite.store.codec import CODECS
from relaylite.store.folder import DISK_BYTES


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_flag_environment_project_user_default(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [load_settings().seed]
    write(paths.settings_file(), "seed = 1")
    seen.append(load_settings().seed)
    write(folder / "relaylite.toml", "seed = 2")
    seen.append(load_settings().seed)
    monkeypatch.setenv("RELAYLITE_SEED", "3")
    seen.append(load_settings({"seed": None}).seed)
    settings = load_settings({"seed": 4})
    seen.append(settings.seed)
    assert seen == [0, 1, 2, 3, 4]
    assert settings.sources == {"seed": "--seed"}


def test_each_value_says_where_it_came_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(paths.settings_file(), 'policy = "naive"\n[store]\nram = "1GiB"\n')
    write(folder / "relaylite.toml", "[tui]\ntheme = 'nord'")
    monkeypatch.setenv("RELAYLITE_STORE_DISK", "0")
    settings = load_settings({"agents": "plan, solve"})
    assert settings.sources == {
        "policy": str(paths.settings_file()),
        "store.ram": str(paths.settings_file()),
        "tui.theme": "relaylite.toml",
        "store.disk": "RELAYLITE_STORE_DISK",
        "agents": "--agents",
    }
    assert (settings.policy, settings.agents, settings.tui.theme) == ("naive", ("plan", "solve"), "nord")
    assert (settings.store.ram, settings.store.disk) == (2**30, 0)


def test_tables_for_others_are_passed_on_as_they_stand(folder: Path) -> None:
    write(folder / "relaylite.toml", "[relay]\ntau_dev = 1.5\n[relay.fast]\nl_start = 4\n[tui.keys]\ncancel = 'ctrl+x'\n")
    settings = load_settings()
    assert settings.relay == {"tau_dev": 1.5, "fast": {"l_start": 4}}
    assert settings.tui.keys == {"cancel": "ctrl+x"}


def test_sampling_of_files_is_a_base_and_that_of_flags_and_variables_is_forced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "relaylite.toml", "temperature = 0.5\ntop_k = 7\n")
    monkeypatch.setenv("RELAYLITE_TOP_K", "9")
    settings = load_settings({"max_tokens": 8, "min_p": 0.05})
    assert settings.sampling() == {"temperature": 0.5, "top_k": 9, "max_tokens": 8, "min_p": 0.05}
    assert settings.forced_sampling() == {"top_k": 9, "max_tokens": 8, "min_p": 0.05}


def test_every_sampling_value_is_a_setting_with_the_same_default_and_range(folder: Path) -> None:
    """Or with none, where each role has its own; but for the bias of token ids, which belong to one model."""
    defaults = {name: default for name, _, default in settings.describe()}
    plain = Sampling().values()
    assert set(plain) - set(defaults) == {"logit_bias"} and load_settings().sampling() == {}
    assert {name for name in set(plain) & set(defaults) if defaults[name] not in (None, plain[name])} == set()
    ends = {
        "frequency_penalty": -2,
        "presence_penalty": 2,
        "penalty_last_n": -1,
        "dry_base": 1,
        "dry_allowed_length": 0,
        "dry_multiplier": 100,
    }
    for name, value in ends.items():
        assert Sampling().merged({name: load_settings({name: str(value)}).sampling()[name]})
    write(folder / "relaylite.toml", "dry_base = 0.5")
    with pytest.raises(UsageError, match="dry_base must be a number from 1 to 100"):
        load_settings()


def test_every_setting_has_a_sentence_and_its_default_is_a_value_that_may_be_given() -> None:
    names = [name for name, _, _ in settings.describe()]
    assert {"model", "store.ram", "tui.keys", "relay"} <= set(names) and "sources" not in names
    for name, about, default in settings.describe():
        assert about.endswith("."), name
        if default not in (None, "", ()):
            assert load_settings({name: default}) == Settings(), name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_token = 5", "unknown setting 'max_token'; did you mean max_tokens?"),
        ("[store]\nramm = 5", "unknown setting 'store.ramm'; did you mean store.ram"),
        ("xyzzy = 5", "unknown setting 'xyzzy'; `relaylite config` lists the known ones"),
        ("store = 5", "unknown setting 'store'"),
        ("[model]\na = 1", "model must be a text, not {'a': 1}"),
        ('seed = "x"', "seed must be an integer from 0 to 4294967294, not 'x'"),
        ("seed = -1", "seed must be an integer from 0"),
        ("seed = true", "seed must be an integer"),
        ("temperature = nan", "temperature must be a number from 0 to 10"),
        ("max_tokens = -2", "max_tokens must be an integer of at least 1, or -1 for as many as fit, not -2"),
        ("max_tokens = 0", "max_tokens must be an integer of at least 1, or -1 for as many as fit, not 0"),
        ('max_tokens = "many"', "max_tokens must be an integer of at least 1"),
        ("agents = []", "agents must be a list of names"),
        ('policy = "relai"', "relaylite.toml: policy: unknown policy 'relai'; did you mean relay"),
        ('policy = "best"', "policy: unknown policy 'best'; known: full, prefix, naive, relay, relay:fast"),
        ('policy = "careful"', "policy: unknown policy 'careful'; did you mean relay:careful?"),
        ('fidelity = "best"', "fidelity must be one of fast, balanced, careful, not 'best'"),
        ('[store]\nram = "lots"', "store.ram must be a size such as 512MiB or 4GiB, not 'lots'"),
        ("[tui]\nmouse = 'perhaps'", "tui.mouse must be true or false"),
        ("relay = 1", "relay must be a table"),
        ("seed = ", "Invalid value"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_what_is_wrong(folder: Path, text: str, said: str) -> None:
    write(folder / "relaylite.toml", text)
    with pytest.raises(UsageError) as caught:
        load_settings()
    message = str(caught.value)
    assert message.startswith("relaylite.toml: ") and said in message and "\n" not in message


def test_wrong_variables_and_flags_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"^--top-p must be a number from 0 to 1, not 2$"):
        load_settings({"top_p": 2})
    monkeypatch.setenv("RELAYLITE_CTX", "many")
    with pytest.raises(UsageError, match=r"^RELAYLITE_CTX must be an integer of at least 16, not 'many'$"):
        load_settings()


def test_files_that_cannot_be_read(folder: Path) -> None:
    (folder / "relaylite.toml").mkdir()
    with pytest.raises(UsageError, match=r"cannot read relaylite.toml: Is a directory"):
        load_settings()


def test_variables_that_name_nothing_are_known_to_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYLITE_MODLE", "x")
    monkeypatch.setenv("RELAYLITE_MODEL", "x")
    assert settings.unknown_variables() == ["RELAYLITE_MODLE"]


@pytest.mark.parametrize(("text", "n"), [("512MiB", 2**29), ("4 GB", 4 * 10**9), ("1.5k", 1500), ("0", 0), ("7b", 7), ("2gi", 2**31)])
def test_sizes(text: str, n: int) -> None:
    assert load_settings({"store.ram": text}).store.ram == n


@pytest.mark.parametrize(("n", "text"), [(4 * 2**30, "4 GiB"), (1536 * 2**20, "1536 MiB"), (10**9, "1 GB"), (12345, "12345"), (0, "0")])
def test_sizes_are_shown_in_the_unit_that_fits_and_can_be_given_back(n: int, text: str) -> None:
    assert settings.shown("store.disk", n) == text
    assert load_settings({"store.disk": text}).store.disk == n


@pytest.mark.parametrize(("name", "value", "text"), [("stop", (), "unset"), ("tui.mouse", False, "false"), ("agents", ("a", "b"), "a,b")])
def test_values_are_shown_as_they_are_written(name: str, value: object, text: str) -> None:
    assert settings.shown(name, value) == text


def test_all_state_lies_below_one_folder(home: Path) -> None:
    places = [
        paths.settings_file(),
        paths.agents_file(),
        paths.sessions_folder(),
        paths.profiles_folder(),
        paths.store_folder(),
        paths.logs_folder(),
        paths.history_file(),
    ]
    assert all(place.is_relative_to(home) for place in places)
    assert not any(place.exists() for place in places)
    made = paths.ensure(paths.sessions_folder())
    assert made.stat().st_mode & 0o777 == 0o700


def test_without_the_variable_state_lies_where_the_system_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(paths.HOME_VARIABLE)
    assert "relaylite" in paths.settings_file().parts


def test_codecs_and_budget_of_stored_rows_are_those_of_the_store(folder: Path) -> None:
    assert set(settings.STORE_CODECS) == set(CODECS)
    assert load_settings().store.disk == DISK_BYTES
    write(folder / "relaylite.toml", '[store]\ncodec = "q6-q4"\n')
    assert load_settings().relay_options()["store_codec"] == "q6-q4"
    write(folder / "relaylite.toml", '[store]\ncodec = "zip"\n')
    with pytest.raises(UsageError, match="codec"):
        load_settings()


def test_conversations_settle_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().relay_options()["settle_after_s"] == 2
    monkeypatch.setenv("RELAYLITE_SETTLE_AFTER_S", "0")
    assert load_settings().relay_options()["settle_after_s"] is None


@pytest.mark.parametrize("written", ["lora = []", 'lora = ""'])
def test_an_empty_list_of_adapters_is_none(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relaylite.toml").write_text(written)
    assert load_settings({}).lora == ()
    assert load_settings({"lora": ""}).lora == ()
    assert load_settings({"lora": "a.gguf:0.5,b.gguf"}).lora == ("a.gguf:0.5", "b.gguf")
    with pytest.raises(UsageError, match="must be FILE or FILE:SCALE"):
        load_settings({"lora": ","})


def test_a_settings_file_that_is_nested_without_end_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relaylite.toml").write_text("x = " + "[" * 5000)
    with pytest.raises(UsageError, match=r"relaylite\.toml"):
        load_settings({})
