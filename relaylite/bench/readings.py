"""`Readings`: the prompts of a benchmark, chain by chain: what agents read after those before them, or relayed text of given lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from relaylite.bench.chains import LEAST_JOINED, Reading, Upstream, Written
from relaylite.bench.tasks import Task
from relaylite.chain.agents import BUILT_IN, Agent, choose_agents
from relaylite.errors import UsageError


class Readings:
    """Has `upstream` write. `agents` None: the built-in ones for each task's kind. `relayed`: lengths in tokens, or empty.

    `check` is called before each answer that is written for a length, and ends that by raising.
    """

    def __init__(self, upstream: Upstream, agents: Sequence[Agent] | None, relayed: Sequence[int], check: Callable[[], None]) -> None:
        self._upstream, self._agents, self._relayed, self._check = upstream, agents, relayed, check
        self._answers: dict[int, Written] = {}  # by the number of the task; those of tasks before the current chain are gone

    def of(self, tasks: Sequence[Task], chain: int) -> Iterator[tuple[str, Reading]]:
        """The readings of chain number `chain`, with the group of each: the reading agent with its place, or the length.

        Upstream text is written as the next reading is asked for. Raises UsageError if it is too short for a length.
        """
        task = tasks[chain]
        agents = self._agents_for(task)
        if not self._relayed:
            for reading in self._upstream.chain(task, agents):
                yield f"{reading.index + 1} {reading.agent}", reading
        for length in self._relayed:
            answers = self._answers_from(tasks, chain, length)
            yield str(length), self._upstream.joined(answers, length, task, agents[1])

    def _agents_for(self, task: Task) -> Sequence[Agent]:
        return self._agents or built_in(task)

    def _answers_from(self, tasks: Sequence[Task], chain: int, n_tokens: int) -> list[Written]:
        """What the first agent writes to this task and those after it, until that is `n_tokens` long; kept for later prompts.

        After the last task comes the first one again. Raises UsageError if the answers to all tasks are too short.
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


def built_in(task: Task) -> Sequence[Agent]:
    """The agents that work on tasks of this kind, as they come with relaylite."""
    return choose_agents(task.agents, {agent.name: agent for agent in BUILT_IN})
