"""Profiles: values that survive JSON, files that are found or passed over, overrides that are checked before a model is loaded."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaylite import paths
from relaylite.errors import RelayliteError, UsageError
from relaylite.reuse.policies import FIDELITIES, FULL, NAIVE, parse_policy
from relaylite.reuse.profile import Profile, RelayParameters, default_profile, load_profile, save_profile

N_LAYER = 24
GOOD = RelayParameters(3, 3, N_LAYER)


@st.composite
def parameters(draw: st.DrawFn) -> RelayParameters:
    start = draw(st.integers(0, N_LAYER - 2))
    detector = draw(st.sampled_from(["attention", "value"]))
    det = start if detector == "attention" else draw(st.integers(start + 1, N_LAYER - 1))
    end = draw(st.integers(det, N_LAYER))
    tau, share, lead, thinning, attended = (draw(st.floats(0, most)) for most in (9, 1, 2, 1, 2))
    return RelayParameters(start, det, end, detector, tau, share, lead, thinning, attended)


def profile_of(parameters: RelayParameters, weights: str = "abc") -> Profile:
    return Profile(weights, dict.fromkeys(FIDELITIES, parameters), is_measured=True, measured={"similarity": [0.5, 1.0]})


@given(parameters(), parameters(), parameters())
def test_what_is_written_is_read(fast: RelayParameters, balanced: RelayParameters, careful: RelayParameters) -> None:
    fidelities = {"fast": fast, "balanced": balanced, "careful": careful}
    profile = Profile("abc", fidelities, is_measured=True, measured={"similarity": [0.5]})  # type: ignore[arg-type]
    assert Profile.from_json(profile.to_json()) == profile


def test_a_profile_from_before_attention_counted_is_read_without_it() -> None:
    data = json.loads(profile_of(dataclasses.replace(GOOD, attended=0.5)).to_json())
    for mode in data["modes"].values():
        assert mode.pop("attended") == 0.5
    assert Profile.from_json(json.dumps(data)) == profile_of(GOOD) and GOOD.attended == 0


def test_a_saved_profile_is_found_by_its_weights_alone() -> None:
    profile = profile_of(GOOD)
    save_profile(profile)
    assert load_profile("abc", N_LAYER) == profile
    assert not load_profile("abd", N_LAYER).is_measured


def test_what_was_measured_here_goes_before_what_was_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "shipped_models_folder", lambda: tmp_path)
    (tmp_path / "profiles").mkdir()
    shipped = profile_of(RelayParameters(1, 1, N_LAYER))
    (tmp_path / "profiles" / "abc.json").write_text(shipped.to_json())
    assert load_profile("abc", N_LAYER) == shipped
    save_profile(profile_of(GOOD))
    assert load_profile("abc", N_LAYER) == profile_of(GOOD)


def without(key: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(profile_of(GOOD).to_json())
    del data[key]
    return data


def with_mode(**values: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(profile_of(GOOD).to_json())
    data["modes"]["fast"].update(values)
    return data


DAMAGED: dict[str, Any] = {
    "no-version": without("version"), "no-modes": without("modes"), "no-fingerprint": without("fingerprint"),
    "no-measured": without("measured"), "later-version": {**without("version"), "version": 99},
    "a-list": [], "a-number": 3, "modes-a-list": {**without("modes"), "modes": []},
    "mode-missing": {**without("modes"), "modes": {"fast": dataclasses.asdict(GOOD)}},
    "unknown-key": with_mode(nosuch=1), "text-for-layer": with_mode(l_start="3"), "half-a-layer": with_mode(l_end=3.5),
    "true-for-layer": with_mode(l_start=True, l_det=True), "negative": with_mode(l_start=-1, l_det=-1), "descending": with_mode(l_end=1),
    "share-of-two": with_mode(max_share=2), "share-unknown": with_mode(max_share=float("nan")), "tau-endless": with_mode(tau=float("inf")),
    "tau-null": with_mode(tau=None), "attended-negative": with_mode(attended=-1), "other-detector": with_mode(detector="nosuch"),
    "detector-without-range": with_mode(detector="value"),
    "layer-beyond-model": with_mode(l_end=N_LAYER + 1), "detection-behind-model": with_mode(l_start=N_LAYER, l_det=N_LAYER),
    "of-other-weights": {**without("fingerprint"), "fingerprint": "other"},
}  # fmt: skip
BYTES = {"empty": b"", "half": profile_of(GOOD).to_json().encode()[:100], "binary": bytes(range(256)), "not-json": b"l_start = 3"}


@pytest.mark.parametrize("damage", [*DAMAGED, *BYTES])
def test_a_damaged_profile_is_passed_over_with_a_warning(damage: str, caplog: pytest.LogCaptureFixture) -> None:
    file = paths.ensure(paths.profiles_folder()) / "abc.json"
    file.write_bytes(BYTES[damage] if damage in BYTES else json.dumps(DAMAGED[damage]).encode())
    with caplog.at_level(logging.WARNING):
        profile = load_profile("abc", N_LAYER)
    assert profile == default_profile("abc", N_LAYER)
    [record] = caplog.records
    assert str(file) in record.getMessage() and "\n" not in record.getMessage()


def test_a_folder_in_place_of_a_profile_is_passed_over() -> None:
    (paths.ensure(paths.profiles_folder()) / "abc.json").mkdir()
    assert load_profile("abc", N_LAYER) == default_profile("abc", N_LAYER)


def test_a_profile_that_cannot_be_written_is_one_line_and_leaves_the_old_one() -> None:
    save_profile(profile_of(GOOD))
    (paths.profiles_folder() / f".abc.json.{os.getpid()}").mkdir()  # where the new one would be written
    with pytest.raises(RelayliteError, match=r"cannot write .*abc\.json"):
        save_profile(profile_of(RelayParameters(1, 1, N_LAYER)))
    assert load_profile("abc", N_LAYER) == profile_of(GOOD)


@pytest.mark.parametrize("n_layer", [1, 2, 3, 8, 30, 126])
def test_the_default_fits_every_model(n_layer: int) -> None:
    profile = default_profile("abc", n_layer)
    profile.check_fits(n_layer)
    assert profile.fidelities.keys() == set(FIDELITIES) and not profile.is_measured
    shares = [profile.fidelities[fidelity].max_share for fidelity in FIDELITIES]
    assert shares == sorted(shares)


# overrides


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"nosuch": 1}, "unknown relay parameter 'nosuch'; known: attended, detector"),
        ({"l_start": 9}, "l_start <= l_det"),
        ({"l_start": "2"}, "l_start must be the number of a layer"),
        ({"l_end": 2.5}, "l_end must be the number of a layer"),
        ({"tau": "high"}, "tau must be a number"),
        ({"tau": -1}, "tau must not be negative"),
        ({"lead": -0.5}, "lead must not be negative"),
        ({"attended": -1.0}, "attended must not be negative"),
        ({"attended": "suffix"}, "attended must be a number"),
        ({"thinning": float("inf")}, "thinning must be a number"),
        ({"max_share": 1.5}, "max_share must be in"),
        ({"max_share": True}, "max_share must be a number"),
        ({"detector": "key"}, "unknown detector 'key'"),
        ({"detector": "value"}, "l_det > l_start"),
    ],
)
def test_impossible_overrides_are_one_line(overrides: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        profile_of(GOOD).overridden(overrides)
    assert "\n" not in str(caught.value)


def test_an_override_replaces_that_value_in_every_mode_and_no_other() -> None:
    profile = default_profile("abc", N_LAYER)
    changed = profile.overridden({"tau": 7.0})
    for fidelity in FIDELITIES:
        assert changed.fidelities[fidelity] == dataclasses.replace(profile.fidelities[fidelity], tau=7.0)
    assert profile.overridden({}) == profile


@pytest.mark.parametrize("parameters", [RelayParameters(3, 3, N_LAYER + 1), RelayParameters(N_LAYER, N_LAYER, N_LAYER)])
def test_layers_beyond_the_model_do_not_fit(parameters: RelayParameters) -> None:
    with pytest.raises(UsageError, match=f"beyond this model's {N_LAYER} layers"):
        profile_of(parameters).check_fits(N_LAYER)


# what is captured, and for which policy


def test_captures_are_what_all_fidelities_need() -> None:
    profile = Profile(
        "", {"fast": RelayParameters(4, 4, 9), "balanced": RelayParameters(2, 5, 9, "value"), "careful": RelayParameters(0, 0, 9)}
    )
    assert profile.captures == {"l_in-4": "l_out-3", "attn-4": "kqv_out-4", "l_in-2": "l_out-1", "attn-0": "kqv_out-0"}


def test_policies_that_repair_nothing_have_no_parameters() -> None:
    profile = default_profile("abc", N_LAYER)
    assert profile.parameters(FULL) is None and profile.parameters(NAIVE) is None
    assert [profile.parameters(parse_policy(f"relay:{f}")) for f in FIDELITIES] == [profile.fidelities[f] for f in FIDELITIES]
