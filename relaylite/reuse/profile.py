"""`Profile`: how one model is repaired, per fidelity: layers and thresholds of the sweep.

Values and their JSON; `calibrate` measures them.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from relaylite import paths
from relaylite.errors import RelayliteError, UsageError
from relaylite.reuse.policies import FIDELITIES, Fidelity, Policy

log = logging.getLogger("relaylite.profile")

VERSION = 1
Detector = Literal["attention", "value"]
DETECTORS: tuple[Detector, ...] = get_args(Detector)  # `engine.sweep.PROBES` has a way for each


@dataclass(frozen=True, slots=True)
class RelayParameters:
    """Parameters of one sweep (RelayCaching, arXiv 2603.13289, section 4; docs/method.md).

    `l_start`: the layer that captured hidden states enter, and the first in which selected tokens are recomputed (0: from their ids).
    `l_det`: the layer in which deviation is measured, by `detector`. "attention" compares the attention output there with the captured one,
    and needs `l_det == l_start`; "value" runs all span tokens from `l_start` on, and compares V. `l_end`: the first layer in which selected
    tokens are no longer computed; they still write K and V there. `n_layer` (shipped): they are computed to the end. A token's score is its
    deviation in multiples of the mean, and up to `lead` more at the start of its span. It is selected if its score exceeds `tau` times the
    mean score. `attended`: the score is multiplied by the attention that the prompt's last new tokens (32 at most) pay to the token at
    `l_det`, in multiples of the mean, to this power; 0 does not ask for it. `max_share`: the share of the spans' tokens that is selected
    at most; for more than 256 tokens it is raised to the power of 1 + `thinning` for each doubling.
    """

    l_start: int
    l_det: int
    l_end: int
    detector: Detector = "attention"
    tau: float = 1.5
    max_share: float = 0.25
    lead: float = 0.5
    thinning: float = 0.11
    attended: float = 0.0

    def __post_init__(self) -> None:
        _check_types(dataclasses.asdict(self))
        if not 0 <= self.l_start <= self.l_det <= self.l_end:
            raise UsageError(f"layers must satisfy 0 <= l_start <= l_det <= l_end, not {self.l_start}, {self.l_det}, {self.l_end}")
        if self.detector not in DETECTORS:
            raise UsageError(f"unknown detector {self.detector!r}; known: {', '.join(DETECTORS)}")
        if (self.detector == "attention") != (self.l_det == self.l_start):
            raise UsageError("the attention detector needs l_det == l_start, the value detector l_det > l_start")
        if not 0 <= self.max_share <= 1:
            raise UsageError(f"max_share must be in [0, 1], not {self.max_share}")
        for name in ("tau", "lead", "thinning", "attended"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must not be negative, as {getattr(self, name)} is")

    def fits(self, n_layer: int) -> bool:
        """Whether a model of so many layers has the layers that these name."""
        return self.l_det < n_layer and self.l_end <= n_layer

    @property
    def captures(self) -> dict[str, str]:
        """State name in `Rows.states` → graph node to watch while decoding."""
        names = {}
        if self.l_start > 0:
            names[f"l_in-{self.l_start}"] = f"l_out-{self.l_start - 1}"
        if self.detector == "attention":
            names[f"attn-{self.l_det}"] = f"kqv_out-{self.l_det}"
        return names


@dataclass(frozen=True, slots=True)
class Profile:
    """Parameters of the three fidelities for the weights of one fingerprint. `is_measured` is False for the default of an unknown model.

    `measured`: what calibration saw (similarity per layer, loss and cost per setting), for pictures; plain JSON.
    """

    fingerprint: str
    fidelities: dict[Fidelity, RelayParameters]
    is_measured: bool = False
    measured: dict[str, Any] = field(default_factory=dict)

    @property
    def captures(self) -> dict[str, str]:
        """What to capture while decoding, so that every fidelity can be used later."""
        return {name: node for parameters in self.fidelities.values() for name, node in parameters.captures.items()}

    def parameters(self, policy: Policy) -> RelayParameters | None:
        """Parameters for this policy, None if it repairs nothing."""
        return self.fidelities[policy.fidelity] if policy.repairs else None

    def overridden(self, overrides: Mapping[str, Any]) -> Profile:
        """This profile with some parameters replaced in every fidelity. Raises UsageError for unknown names or impossible values."""
        check_changes(overrides)
        if not overrides:
            return self
        changed = {fidelity: dataclasses.replace(parameters, **overrides) for fidelity, parameters in self.fidelities.items()}
        return dataclasses.replace(self, fidelities=changed)

    def check_fits(self, n_layer: int) -> None:
        """Raise UsageError if a fidelity names layers that a model of `n_layer` layers does not have."""
        if not all(parameters.fits(n_layer) for parameters in self.fidelities.values()):
            raise UsageError(
                f"relay parameters beyond this model's {n_layer} layers: give l_det below {n_layer} and l_end of at most {n_layer}"
            )

    def to_json(self) -> str:
        data = {
            "version": VERSION,
            "fingerprint": self.fingerprint,
            "modes": {fidelity: dataclasses.asdict(parameters) for fidelity, parameters in self.fidelities.items()},
            "measured": self.measured,
        }
        return json.dumps(data, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Profile:
        """Raises UsageError in one line if `text` is no profile of this version."""
        try:
            data = json.loads(text)
            if data["version"] != VERSION:
                raise UsageError(f"a profile of version {data['version']}, this relaylite reads {VERSION}; run relaylite profile again")
            fidelities = {fidelity: RelayParameters(**data["modes"][fidelity]) for fidelity in FIDELITIES}
            return cls(str(data["fingerprint"]), fidelities, is_measured=True, measured=dict(data["measured"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"not a layer-range profile ({error}); run relaylite profile again") from error


def check_changes(changes: Mapping[str, Any]) -> None:
    """Raise UsageError for a name that no parameter has, or a value of another type. Whether values fit together, a profile shows."""
    known = {f.name for f in dataclasses.fields(RelayParameters)}
    if unknown := sorted(changes.keys() - known):
        raise UsageError(f"unknown relay parameter {unknown[0]!r}; known: {', '.join(sorted(known))}")
    _check_types(changes)


def _check_types(values: Mapping[str, Any]) -> None:
    """`values`: name of a parameter → its value; some of them or all."""
    for name, value in values.items():
        if name in ("l_start", "l_det", "l_end") and (isinstance(value, bool) or not isinstance(value, int)):
            raise UsageError(f"{name} must be the number of a layer, not {value!r}")
        if name in ("tau", "max_share", "lead", "thinning", "attended") and (
            isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)
        ):
            raise UsageError(f"{name} must be a number, not {value!r}")


def default_profile(weights: str, n_layer: int) -> Profile:
    """For a model that was never profiled: attention is compared early, and selected tokens are recomputed to the last layer."""
    start = max(1, round(n_layer / 15)) if n_layer > 1 else 0

    def selecting(max_share: float) -> RelayParameters:
        return RelayParameters(start, start, n_layer, "attention", tau=1.0, max_share=max_share)

    return Profile(weights, {"fast": selecting(0.05), "balanced": selecting(0.14), "careful": selecting(0.23)})


def load_profile(weights: str, n_layer: int) -> Profile:
    """The profile measured on this machine, else the shipped one, else the default. A damaged file is passed over with a warning."""
    for folder in (paths.profiles_folder(), paths.shipped_models_folder() / "profiles"):
        file = folder / f"{weights}.json"
        try:
            profile = Profile.from_json(paths.read_whole(file).decode(errors="replace"))
        except OSError:
            continue
        except UsageError as error:
            log.warning("%s: %s", file, error)
            continue
        if profile.fingerprint == weights and all(parameters.fits(n_layer) for parameters in profile.fidelities.values()):
            return profile
        log.warning("%s belongs to another model; passed over", file)
    return default_profile(weights, n_layer)


def save_profile(profile: Profile) -> Path:
    """Write `profile` where `load_profile` finds it first. Raises RelayliteError if the folder cannot be written."""
    file = paths.ensure(paths.profiles_folder()) / f"{profile.fingerprint}.json"
    try:
        with paths.replacing(file) as written:
            written.write_text(profile.to_json(), encoding="utf-8")
    except OSError as error:
        raise RelayliteError(f"cannot write {file}: {error.strerror}; free space or set {paths.HOME_VARIABLE} to another folder") from error
    return file
