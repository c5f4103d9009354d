"""`Meter`: runs every method on one prompt, and says of each run what it cost and what it kept.

Each run starts from an empty sequence and the same rows. TTFT runs over what a chain's turn does: prompt parts → tokens → plan → rows
in place → repaired → computed → first token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from relaylite.bench.chains import UNLIMITED, Reading
from relaylite.bench.grading import is_right
from relaylite.bench.methods import AGAIN, Method
from relaylite.bench.options import BenchOptions
from relaylite.bench.sample import Sample
from relaylite.engine.engine import Engine
from relaylite.engine.native import F32
from relaylite.metrics import CellMap, Stopwatch, TtftParts
from relaylite.prompt.builder import PromptBuilder
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, RELAY
from relaylite.reuse.profile import Profile
from relaylite.sampling import Sampling
from relaylite.store import Store
from relaylite.store.codec import Codec


class Meter:
    """`profiles`: what each of `methods` runs with, by its label. `check` is called between steps, and ends the measuring by raising."""

    def __init__(
        self, engine: Engine, methods: Sequence[Method], profiles: Mapping[str, Profile], options: BenchOptions, check: Callable[[], None]
    ) -> None:
        self._engine, self._methods, self._profiles, self._options, self._check = engine, methods, profiles, options, check
        self._prompts = PromptBuilder(engine.template, engine.tokenizer)

    def samples(self, reading: Reading, number: int, group: str) -> list[Sample]:
        """Samples of all methods on prompt `number`, in the methods' order; none if nothing is relayed in this prompt.

        Methods run in an order that rotates with `number`, so that none is always the first.
        """
        prompt = self._prompts.build(reading.messages)
        if not make_plan(prompt.tokens, reading.store, RELAY, prompt.quotes).count(Kind.SPAN):
            return []
        with TemporaryDirectory() as folder:
            return self._of_all(self._with_stores(reading, Path(folder)), number, group)

    def _with_stores(self, reading: Reading, folder: Path) -> dict[Codec | None, Reading]:
        """By the codec that methods ask for (None: rows in memory), the same reading with a store of that codec."""
        readings: dict[Codec | None, Reading] = {None: reading}
        for codec in {method.codec for method in self._methods if method.codec is not None}:
            store = Store(self._engine.layout, 0, folder=folder / codec.name, disk_bytes=UNLIMITED, codec=codec)
            for rows in reading.rows:
                store.put(rows)
            readings[codec] = replace(reading, store=store)
        return readings

    def _of_all(self, readings: Mapping[Codec | None, Reading], number: int, group: str) -> list[Sample]:
        continuation = self._continuation(readings[None])
        start = number % len(self._methods)
        samples: dict[str, Sample] = {}
        seen: dict[str, F32] = {}
        for method in [*self._methods[start:], *self._methods[:start]]:
            self._check()
            samples[method.label], first = self._timed(method, readings[method.codec], number, group)
            seen[method.label] = np.concatenate([first[None], self._engine.force(continuation[:-1])]) if continuation[1:] else first[None]
        reference = seen[FULL.label]
        compared = [(method, samples[method.label].compared(reference, seen[method.label])) for method in self._methods]
        return [self._judged(method, readings[method.codec], sample) for method, sample in compared]

    def _continuation(self, reading: Reading) -> list[int]:
        """The greedy tokens behind the prompt, by a full prefill. Not timed: it warms what the first run would warm for the others."""
        self._prefill(Method(FULL.label, FULL), reading)
        writer = self._engine.generate(Sampling(max_tokens=self._options.n_follow))
        for _ in writer:
            self._check()
        return list(writer.tokens)

    def _prefill(self, method: Method, reading: Reading) -> None:
        self._use(method)
        prompt = self._prompts.build(reading.messages)
        self._engine.prefill(make_plan(prompt.tokens, reading.store, method.policy, prompt.quotes), lambda _: self._check())

    def _use(self, method: Method) -> None:
        self._engine.configure(self._profiles[method.label], forced=method.forced, n_batch=method.n_batch)

    def _timed(self, method: Method, reading: Reading, number: int, group: str) -> tuple[Sample, F32]:
        """The prompt by `method`, from its parts to its first token, and the logits `[n_vocab]` of that token."""
        self._use(method)
        watch = Stopwatch()
        prompt = self._prompts.build(reading.messages)
        plan = make_plan(prompt.tokens, reading.store, method.policy, prompt.quotes)
        render_ms = watch.lap_ms()
        prefill = self._engine.prefill(plan, lambda _: self._check())
        prefill_ms = watch.lap_ms()
        logits = self._engine.logits().copy()
        watch.lap_ms()  # a turn copies no logits
        deltas = self._engine.generate(Sampling(max_tokens=1))
        next(deltas)
        sample_ms = watch.lap_ms()
        deltas.close()
        suffix_ms = prefill_ms - prefill.place_ms - prefill.repair_ms
        sample = Sample(
            method.label, number, group, TtftParts(render_ms, prefill.place_ms, prefill.repair_ms, suffix_ms, sample_ms),
            prompt_tokens=len(plan.tokens), prefix_tokens=plan.count(Kind.PREFIX), span_tokens=plan.count(Kind.SPAN),
            selected_tokens=_selected(prefill.cells),
            reuse_ratio=prefill.cells.reuse_ratio, prompt_reuse=prefill.cells.prompt_reuse,
        )  # fmt: skip
        return sample, logits

    def _judged(self, method: Method, reading: Reading, sample: Sample) -> Sample:
        """With whether the answer that this method writes is right, where that is asked and known."""
        is_asked = self._options.judges and reading.is_graded and method.label != AGAIN.label
        if not (is_asked and reading.task.is_graded(execute=self._options.executes)):
            return sample
        self._prefill(method, reading)
        text = []
        for delta in self._engine.generate(Sampling(max_tokens=self._options.chains.max_tokens)):
            self._check()
            text.append(delta.text)
        return replace(sample, is_right=is_right(reading.task, "".join(text)))


def _selected(cells: CellMap) -> int:
    """Of the layers in which some span tokens were recomputed, the number of tokens in the median one."""
    counts = (cells.cells == CellMap.RECOMPUTED).sum(axis=1)
    return int(np.median(counts[counts > 0])) if counts.any() else 0
