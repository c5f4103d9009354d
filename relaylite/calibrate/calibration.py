"""`Calibration`: chains of one model, parameters tried on every prompt of them, and the profile that comes of it.

Four stages: how rows from writing match (the curve), which layer range is worth most, how much to select in the best ranges, and on
prompts of its own whether what was found is better than the default.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from relaylite.bench import machine
from relaylite.bench.bench import Bench
from relaylite.bench.chains import ChainOptions, Upstream
from relaylite.bench.methods import Method
from relaylite.bench.options import BenchOptions
from relaylite.bench.readings import built_in
from relaylite.bench.sample import Sample
from relaylite.bench.statistics import ratio_of_means
from relaylite.bench.tasks import Task
from relaylite.calibrate import grid
from relaylite.calibrate.similarity import Similarity, mean, similarity_of
from relaylite.calibrate.trial import Trial, best_of, front, not_worse, promising
from relaylite.engine.engine import Engine
from relaylite.errors import Cancelled, UsageError
from relaylite.reuse.policies import FIDELITIES, FULL, NAIVE, RELAY, Fidelity
from relaylite.reuse.profile import Profile, RelayParameters, default_profile

N_BEST = 3  # layer ranges with which other amounts are tried
N_CURVES = 4  # prompts that the curve is a mean of
N_FEWEST = 2  # prompts that a stage measures, however long they take
TOO_LITTLE = "the model writes too little to calibrate on; give more or longer tasks with --tasks"
OnProgress = Callable[[float, str], None]  # gets the share of the time that is over, in [0, 1], and what is measured now
Pairs = dict[RelayParameters, list[tuple[Sample, Sample]]]  # of parameters: their sample and naive's on each prompt


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """`n_chains` in all. `seconds`: no prompt is begun after so many, but each stage measures N_FEWEST.

    `max_tokens` of each answer. `n_follow`: tokens over which the loss is a mean.
    """

    n_chains: int = 16
    seconds: float = 200.0
    max_tokens: int = 160
    n_follow: int = 32


@dataclass(frozen=True, slots=True)
class Findings:
    """What a calibration found. `trials`: all of the stage that varies amounts; `best`: those that become the fidelities of the profile.

    `held_out`, `default`: what the best of `trials`, and the default of an unknown model, did on the prompts of the last stage. A fidelity
    for which the default did better keeps its parameters.
    """

    similarity: Similarity
    trials: tuple[Trial, ...]
    best: dict[Fidelity, Trial]
    held_out: dict[Fidelity, Trial]
    default: dict[Fidelity, Trial]
    n_prompts: int
    seconds: float

    @property
    def front(self) -> list[Trial]:
        return front(self.trials)

    def profile(self, engine: Engine) -> Profile:
        """For `profile.save_profile`; `measured` says on what it rests."""
        measured = {
            "modes": {fidelity: _figures(trial) for fidelity, trial in self.best.items()},
            "held_out": {fidelity: _figures(trial) for fidelity, trial in self.held_out.items()},
            "default": {fidelity: _figures(trial) for fidelity, trial in self.default.items()},
            "candidates": [{**_figures(trial), "parameters": asdict(trial.parameters)} for trial in self.front],
            "similarity": {"v": _rounded(self.similarity.v), "k": _rounded(self.similarity.k)},
            "n_prompts": self.n_prompts,
            "seconds": round(self.seconds),
            "model": machine.model(engine),
            "machine": machine.machine(),
            "versions": machine.versions(),
        }
        parameters = {fidelity: trial.parameters for fidelity, trial in self.best.items()}
        return Profile(engine.profile.fingerprint, parameters, is_measured=True, measured=measured)


class Calibration:
    """Calibrates `engine`, whose cache must hold F16 rows. Raises UsageError if the model cannot relay."""

    def __init__(self, engine: Engine, tasks: Sequence[Task], options: CalibrationOptions | None = None) -> None:
        if engine.info.relay_refusal is not None:
            raise UsageError(f"this model cannot relay, so it needs no profile: {engine.info.relay_refusal}")
        self._engine, self._tasks, self._options = engine, list(tasks), options or CalibrationOptions()
        self._chains = ChainOptions(max_tokens=self._options.max_tokens)
        self._is_cancelled = threading.Event()
        self._bench: Bench | None = None
        self._started = 0.0

    def cancel(self) -> None:
        """From any thread: `run` raises Cancelled within a second."""
        self._is_cancelled.set()
        if self._bench is not None:
            self._bench.cancel()
        self._engine.cancel()

    def run(self, on_progress: OnProgress = lambda *_: None) -> Findings:
        """Measure, and find the best parameters. Raises Cancelled, or UsageError if the tasks give nothing to measure."""
        self._started = time.monotonic()
        n_layer, n_chains = self._engine.info.n_layer, max(min(self._options.n_chains, len(self._tasks)), 4)
        n_first, n_last = max(n_chains // 4, 1), max(n_chains // 4, 1)
        first, fine_tasks, last = (self._tasks[a:b] for a, b in pairwise((0, n_first, n_chains - n_last, n_chains)))
        similarity = self._similarity(on_progress)
        coarse = self._stage("ranges", grid.ranges(n_layer), first, (0.1, 0.35), on_progress)
        ranges = [trial.parameters for trial in promising(_trials(coarse), N_BEST)]
        fine = self._stage("amounts", grid.amounts(ranges, n_layer), fine_tasks, (0.35, 0.8), on_progress)
        trials = _trials({parameters: coarse.get(parameters, []) + pairs for parameters, pairs in fine.items()})
        found = {fidelity: trial.parameters for fidelity, trial in best_of(trials).items()}
        default = default_profile("", n_layer).fidelities
        rivals = dict.fromkeys([*found.values(), *default.values()])
        judged = _by_parameters(_trials(self._stage("check", rivals, last, (0.8, 1.0), on_progress)))
        held_out, of_default = ({fidelity: judged[each[fidelity]] for fidelity in FIDELITIES} for each in (found, default))
        on_progress(1.0, "done")
        n_prompts = max(trial.n for trial in trials)
        kept = _measured_most(not_worse(held_out, of_default), trials)
        return Findings(similarity, tuple(trials), kept, held_out, of_default, n_prompts, time.monotonic() - self._started)

    def _similarity(self, on_progress: OnProgress) -> Similarity:
        """The mean curve of a few prompts."""
        upstream = Upstream(self._engine, self._engine.profile, self._chains, check=self._check)
        curves: list[Similarity] = []
        for task in self._tasks:
            for reading in upstream.chain(task, built_in(task)):
                on_progress(0.1 * len(curves) / N_CURVES, f"curve, prompt {len(curves) + 1}/{N_CURVES}")
                self._check()
                curves += similarity_of(self._engine, reading, upstream.prompts)
            if len(curves) >= N_CURVES:
                return mean(curves)
        raise UsageError(TOO_LITTLE)

    def _stage(
        self, name: str, tried: Iterable[RelayParameters], tasks: Sequence[Task], part: tuple[float, float], on_progress: OnProgress
    ) -> Pairs:
        """The `tried` parameters on chains of `tasks`; `part` of the time, as shares of it, is this stage's."""
        methods = {parameters: Method(str(parameters), RELAY, parameters) for parameters in tried}
        options = BenchOptions(self._chains, n_follow=self._options.n_follow, judges=False)
        base = [Method(FULL.label, FULL), Method(NAIVE.label, NAIVE)]
        self._bench = bench = Bench(self._engine, [*base, *methods.values()], options=options)
        self._check()
        start, end = part

        def show(done: float, what: str) -> None:
            on_progress(start + (end - start) * done, f"{name}, {what}")

        found: Pairs = {parameters: [] for parameters in methods}
        for samples in bench.run(tasks, len(tasks), show):
            by_label = {sample.method: sample for sample in samples}
            for parameters, method in methods.items():
                found[parameters].append((by_label[method.label], by_label[NAIVE.label]))
            if len(found[next(iter(found))]) >= N_FEWEST and time.monotonic() - self._started > end * self._options.seconds:
                break
        if not all(found.values()):
            raise UsageError(TOO_LITTLE)
        return found

    def _check(self) -> None:
        if self._is_cancelled.is_set():
            raise Cancelled("stopped; the profile is as before")


def _trials(found: Pairs) -> list[Trial]:
    return [_trial(parameters, pairs) for parameters, pairs in found.items()]


def _by_parameters(trials: Iterable[Trial]) -> dict[RelayParameters, Trial]:
    return {trial.parameters: trial for trial in trials}


def _measured_most(kept: Mapping[Fidelity, Trial], trials: Iterable[Trial]) -> dict[Fidelity, Trial]:
    """The trials of these parameters that rest on most prompts."""
    known = _by_parameters(trials)
    return {fidelity: known.get(trial.parameters, trial) for fidelity, trial in kept.items()}


def _trial(parameters: RelayParameters, pairs: Sequence[tuple[Sample, Sample]]) -> Trial:
    own, naive = zip(*pairs, strict=True)
    mean_share = ratio_of_means([s.kl_mean for s in own], [s.kl_mean for s in naive])
    first_share = ratio_of_means([s.kl_first for s in own], [s.kl_first for s in naive])
    return Trial(
        parameters,
        cost=float(np.median([s.ttft.total / base.ttft.total for s, base in pairs])),
        kl_mean_share=mean_share.value if mean_share else 0.0,
        kl_first_share=first_share.value if first_share else 0.0,
        selected_share=float(np.mean([s.selected_tokens / s.span_tokens for s in own])),
        n=len(pairs),
    )


def _figures(trial: Trial) -> dict[str, Any]:
    figures = {name: value for name, value in asdict(trial).items() if name != "parameters"}
    return {name: round(value, 4) for name, value in figures.items()}


def _rounded(values: Iterable[float]) -> list[float]:
    return [round(float(value), 5) for value in values]
