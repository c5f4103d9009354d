"""`Bench`: runs every method on the very same prompts, in turn, and says of each run what it cost and what it kept.

One prompt after the other, methods in rotating order, each from an empty sequence and the same store. TTFT runs over what a chain's
turn does: prompt parts → tokens → plan → rows in place → repaired → computed → first token.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from relaylite.bench.chains import LEAST_JOINED, UNLIMITED, ChainOptions, Reading, Upstream, Written
from relaylite.bench.grading import is_right
from relaylite.bench.methods import AGAIN, Method, captures_of
from relaylite.bench.statistics import divergence
from relaylite.bench.tasks import Task
from relaylite.chain.agents import BUILT_IN, Agent, choose_agents
from relaylite.engine.engine import Engine
from relaylite.engine.native import F32
from relaylite.errors import Cancelled, RelayliteError, UsageError
from relaylite.metrics import CellMap, TtftParts
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, RELAY
from relaylite.sampling import Sampling
from relaylite.store import Store
from relaylite.store.codec import Codec


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """`relayed`: lengths of relayed text to measure at; empty for the chain's own answers. `n_follow`: teacher-forced tokens.

    `judges`: whether each method writes the last agent's answer too, for tasks that have a right one; `executes`: run programs for it.
    """

    chains: ChainOptions = field(default_factory=ChainOptions)
    relayed: tuple[int, ...] = ()
    n_follow: int = 48
    judges: bool = True
    executes: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """One method on one prompt. `group` names prompts alike: the agent that reads, or the length asked for.

    `selected_tokens`: span tokens that were recomputed in the layers that repair, not only in those that look for deviation.
    """

    method: str
    prompt: int  # number of the prompt, from 0
    group: str
    ttft: TtftParts
    prompt_tokens: int
    prefix_tokens: int
    span_tokens: int
    selected_tokens: int
    reuse_ratio: float
    prompt_reuse: float
    kl_first: float = 0.0
    kl_mean: float = 0.0
    top1: float = 1.0
    is_right: bool | None = None


class Bench:
    """Drives one benchmark on `engine`; its profile when the benchmark begins is what the policies run with.

    `methods` must hold `full`, which the others are compared with. `agents` None: the built-in ones for each task's kind.
    Raises UsageError if the model cannot relay, or if the chain has nobody who reads.
    """

    def __init__(
        self, engine: Engine, methods: Sequence[Method], agents: Sequence[Agent] | None = None, options: BenchOptions | None = None
    ) -> None:
        if agents is not None and len(agents) < 2:
            raise UsageError("a chain to measure needs two agents or more: one writes, the next one reads")
        if engine.info.relay_refusal is not None:
            raise UsageError(f"this model cannot relay, so there is nothing to measure: {engine.info.relay_refusal}")
        self._engine, self._methods, self._agents = engine, list(methods), agents
        self._options = options or BenchOptions()
        self._profile = engine.profile
        self._upstream = Upstream(engine, engine.profile, self._options.chains, captures_of(methods, engine.profile), self._check)
        self._is_cancelled = threading.Event()
        self._answers: dict[int, Written] = {}  # by the number of the task
        self.n_chains = 0  # in which something was relayed
        self.n_skipped = 0  # prompts without relayed text
        self._n_prompts = 0

    def cancel(self) -> None:
        """From any thread: `run` raises Cancelled within a second."""
        self._is_cancelled.set()
        self._engine.cancel()

    def run(self, tasks: Sequence[Task], n: int, on_progress: Callable[[float, str], None] = lambda *_: None) -> Iterator[list[Sample]]:
        """For each prompt of `n` chains, the samples of all methods; chains in which nothing is relayed do not count.

        Ends early when the tasks do. Raises Cancelled; the engine's profile is as before in the end.
        """
        try:
            for chain in range(len(tasks)):
                if self.n_chains == n:
                    break
                found = 0
                for group, reading in self._readings(tasks, chain):
                    self._check()
                    on_progress(self.n_chains / n, f"chain {self.n_chains + 1}/{n}, {group}")
                    if samples := self._measure(reading, self._n_prompts, group):
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
            self._engine.use(self._profile)

    def _check(self) -> None:
        if self._is_cancelled.is_set():
            raise Cancelled("stopped; what was measured until then is kept")

    # -- prompts ---------------------------------------------------------------------------------------------------------

    def _readings(self, tasks: Sequence[Task], chain: int) -> Iterator[tuple[str, Reading]]:
        task = tasks[chain % len(tasks)]
        agents = self._agents_for(task)
        if not self._options.relayed:
            for reading in self._upstream.chain(task, agents):
                yield f"{reading.index + 1} {reading.agent}", reading
            return
        for length in self._options.relayed:
            answers = self._answers_from(tasks, chain, length)
            yield str(length), self._upstream.joined(answers, length, task, agents[1])

    def _agents_for(self, task: Task) -> Sequence[Agent]:
        return self._agents or built_in(task)

    def _answers_from(self, tasks: Sequence[Task], chain: int, n_tokens: int) -> list[Written]:
        """What the first agent writes to this task and those after it, until that is `n_tokens` long; kept for later prompts.

        Raises UsageError if answers are too short to be joined, over as many tasks as there are.
        """
        answers: list[Written] = []
        for number in range(chain, chain + len(tasks)):
            self._check()
            if number not in self._answers:
                task = tasks[number % len(tasks)]
                first = self._agents_for(task)[0]
                self._answers[number] = self._upstream.write(first, self._upstream.first_messages(task, first))
            if self._answers[number].n_relayable >= LEAST_JOINED:
                answers.append(self._answers[number])
            if sum(answer.n_relayable for answer in answers) >= n_tokens:
                self._answers = {later: answer for later, answer in self._answers.items() if later >= chain}
                return answers
        raise UsageError(
            f"the answers to {len(tasks)} tasks are too short for {n_tokens} relayed tokens; raise --max-tokens or give more tasks"
        )

    # -- one prompt ------------------------------------------------------------------------------------------------------

    def _measure(self, reading: Reading, number: int, group: str) -> list[Sample]:
        """Samples of all methods, in their own order; none if nothing is relayed in this prompt."""
        prompt = self._upstream.prompts.build(reading.messages)
        if not make_plan(prompt.tokens, reading.store, RELAY).count(Kind.SPAN):
            return []
        with TemporaryDirectory() as folder:
            return self._measure_all(self._with_stores(reading, Path(folder)), number, group)

    def _with_stores(self, reading: Reading, folder: Path) -> dict[Codec | None, Reading]:
        """By the codec that methods ask for (None: rows in memory), the same reading with a store of that codec."""
        readings: dict[Codec | None, Reading] = {None: reading}
        for codec in {method.codec for method in self._methods if method.codec is not None}:
            store = Store(self._engine.layout, 0, folder=folder / codec.name, disk_bytes=UNLIMITED, codec=codec)
            for rows in reading.rows:
                store.put(rows)
            readings[codec] = replace(reading, store=store)
        return readings

    def _measure_all(self, readings: dict[Codec | None, Reading], number: int, group: str) -> list[Sample]:
        continuation = self._continuation(readings[None])
        start = number % len(self._methods)
        samples: dict[str, Sample] = {}
        seen: dict[str, F32] = {}
        for method in [*self._methods[start:], *self._methods[:start]]:
            self._check()
            samples[method.label], first = self._timed(method, readings[method.codec], number, group)
            seen[method.label] = np.concatenate([first[None], self._engine.follow(continuation[:-1])]) if continuation[1:] else first[None]
        reference = seen[FULL.label]
        compared = [(method, _compared(samples[method.label], reference, seen[method.label])) for method in self._methods]
        return [self._judged(method, readings[method.codec], sample) for method, sample in compared]

    def _continuation(self, reading: Reading) -> list[int]:
        """The greedy tokens behind the prompt, by a full prefill. Not timed: it warms what the first run would warm for the others."""
        self._prefill(Method(FULL.label, FULL), reading)
        for _ in self._engine.generate(Sampling(max_tokens=self._options.n_follow)):
            self._check()
        return list(self._engine.answer_tokens)

    def _prefill(self, method: Method, reading: Reading) -> None:
        self._engine.use(method.profile(self._profile), forced=method.forced, n_batch=method.n_batch)
        prompt = self._upstream.prompts.build(reading.messages)
        self._engine.prefill(make_plan(prompt.tokens, reading.store, method.policy), lambda _: self._check())

    def _timed(self, method: Method, reading: Reading, number: int, group: str) -> tuple[Sample, F32]:
        """The prompt by `method`, from its parts to its first token. Returns the logits of that token too."""
        self._engine.use(method.profile(self._profile), forced=method.forced, n_batch=method.n_batch)
        started = time.perf_counter()
        prompt = self._upstream.prompts.build(reading.messages)
        plan = make_plan(prompt.tokens, reading.store, method.policy)
        rendered = time.perf_counter()
        prefill = self._engine.prefill(plan, lambda _: self._check())
        computed = time.perf_counter()
        logits = self._engine.logits().copy()
        resumed = time.perf_counter()
        deltas = self._engine.generate(Sampling(max_tokens=1))
        next(deltas)
        sampled = time.perf_counter()
        deltas.close()
        parts = TtftParts(_ms(started, rendered), prefill.place_ms, prefill.repair_ms, 0.0, _ms(resumed, sampled))
        parts.suffix = _ms(rendered, computed) - prefill.place_ms - prefill.repair_ms
        sample = Sample(
            method.label, number, group, parts,
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


def built_in(task: Task) -> Sequence[Agent]:
    """The agents that work on tasks of this kind, as they come with relaylite."""
    return choose_agents(task.agents, {agent.name: agent for agent in BUILT_IN})


def _selected(cells: CellMap) -> int:
    """Of the layers in which some span tokens were recomputed, the number of tokens in the median one."""
    counts = (cells.cells == CellMap.RECOMPUTED).sum(axis=1)
    return int(np.median(counts[counts > 0])) if counts.any() else 0


def _compared(sample: Sample, reference: F32, seen: F32) -> Sample:
    """With the loss against the reference; logits `[n, n_vocab]`."""
    loss = divergence(reference, seen)
    same = reference.argmax(axis=1) == seen.argmax(axis=1)
    return replace(sample, kl_first=float(loss[0]), kl_mean=float(loss.mean()), top1=float(same.mean()))


def _ms(start: float, end: float) -> float:
    return (end - start) * 1000
