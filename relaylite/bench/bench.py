"""`Bench`: one benchmark, prompt after prompt, with every method on each of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from relaylite.bench.chains import Upstream
from relaylite.bench.measuring import Meter
from relaylite.bench.methods import Method, captures_of, profiles_of
from relaylite.bench.options import BenchOptions
from relaylite.bench.readings import Readings
from relaylite.bench.sample import Sample
from relaylite.bench.tasks import Task
from relaylite.chain.agents import Agent
from relaylite.engine.engine import Engine
from relaylite.errors import Cancelled, RelayliteError, UsageError


class Bench:
    """Drives one benchmark on `engine`; its profile when the benchmark begins is what the policies run with.

    `methods` must hold `full` and `naive`, which the others are compared with. `agents` None: the built-in ones for each task's kind.
    Raises UsageError if the model cannot relay, if the chain has nobody who reads, or if parameters that a method changes do not fit
    the model's profile.
    """

    def __init__(
        self, engine: Engine, methods: Sequence[Method], agents: Sequence[Agent] | None = None, options: BenchOptions | None = None
    ) -> None:
        if agents is not None and len(agents) < 2:
            raise UsageError("a chain to measure needs two agents or more: one writes, the next one reads")
        if engine.info.relay_refusal is not None:
            raise UsageError(f"this model cannot relay, so there is nothing to measure: {engine.info.relay_refusal}")
        self._engine, self._profile, options = engine, engine.profile, options or BenchOptions()
        profiles = profiles_of(methods, engine.profile, engine.info.n_layer)
        upstream = Upstream(engine, engine.profile, options.chains, captures_of(profiles.values()), self._check)
        self._readings = Readings(upstream, agents, options.relayed, self._check)
        self._meter = Meter(engine, methods, profiles, options, self._check)
        self._is_cancelled = threading.Event()
        self.n_chains = 0  # in which something was relayed
        self.n_skipped = 0  # prompts without relayed text
        self._n_prompts = 0

    def cancel(self) -> None:
        """From any thread: `run` raises Cancelled within a second."""
        self._is_cancelled.set()
        self._engine.cancel()

    def run(self, tasks: Sequence[Task], n: int, on_progress: Callable[[float, str], None] = lambda *_: None) -> Iterator[list[Sample]]:
        """For each prompt of `n` chains, the samples of all methods; chains in which nothing is relayed do not count.

        `on_progress` gets the share that is done, in [0, 1], and what comes next. Ends early when the tasks do. Raises Cancelled; the
        engine's profile is as before in the end.
        """
        try:
            for chain in range(len(tasks)):
                if self.n_chains == n:
                    break
                found = 0
                for group, reading in self._readings.of(tasks, chain):
                    self._check()
                    on_progress(self.n_chains / n, f"chain {self.n_chains + 1}/{n}, {group}")
                    if samples := self._meter.samples(reading, self._n_prompts, group):
                        yield samples
                        found += 1
                        self._n_prompts += 1
                    else:
                        self.n_skipped += 1
                self.n_chains += found > 0
        except RelayliteError as error:
            if self._is_cancelled.is_set():
                raise Cancelled("stopped; what was measured until then is kept") from error
            raise
        finally:
            self._engine.configure(self._profile)

    def _check(self) -> None:
        if self._is_cancelled.is_set():
            raise Cancelled("stopped; what was measured until then is kept")
