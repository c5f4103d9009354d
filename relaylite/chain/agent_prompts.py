"""`AgentPrompts`: the prompt of each agent in a conversation, and what of the conversation fits the context. Runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relaylite.chain.agents import Agent
from relaylite.chain.conversation import Conversation, Round, messages_for
from relaylite.chain.role_sampling import sampling_of
from relaylite.errors import ContextOverflow, UsageError
from relaylite.events import Turn
from relaylite.prompt.builder import Prompt, PromptBuilder
from relaylite.reuse.rows import Tokens
from relaylite.sampling import MAX_SEED, Sampling

ROOM_AFTER_DROP = 0.75  # rounds go until a prompt fills no more than this of its room, so that not every round moves all others


@dataclass(frozen=True, slots=True)
class AgentPrompts:
    """The prompts of these agents. `told`: sampling values that were given; `n_ctx`: tokens of the context."""

    conversation: Conversation
    agents: tuple[Agent, ...]
    told: Mapping[str, Any]
    builder: PromptBuilder
    n_ctx: int

    def sampling_of(self, index: int) -> Sampling:
        """With another seed after each retry: the same one would write the same answer again."""
        sampling = sampling_of(self.agents[index], self.told)
        seed = (sampling.seed + self.conversation.n_retries) % (MAX_SEED + 1)
        return sampling if sampling.is_greedy else replace(sampling, seed=seed)

    def of(self, index: int) -> Prompt:
        """What the agent at `index` is asked in the last round, with the answers that are there by now."""
        return self._render(index, self.conversation.rounds_read)

    def fitting(self, index: int) -> tuple[Prompt, int]:
        """The same, with room for the answer, and how many rounds have to be dropped for it. Raises ContextOverflow.

        If rounds must go, more go than need be (`ROOM_AFTER_DROP`).
        """
        room, rounds, n_dropped = self._room(index), self.conversation.rounds, self.conversation.n_dropped
        is_open_ended = self.sampling_of(index).max_tokens < 0
        prompt = self._render(index, rounds[n_dropped:])
        if len(prompt) > room * (ROOM_AFTER_DROP if is_open_ended else 1):
            while len(prompt) > room * ROOM_AFTER_DROP and n_dropped < len(rounds) - 1:
                n_dropped += 1
                prompt = self._render(index, rounds[n_dropped:])
        self._check_room(index, len(prompt))
        return prompt, n_dropped

    def check_fits(self, round: Round) -> None:
        """Raises ContextOverflow if some agent's prompt for `round` does not fit even without earlier messages and answers."""
        for index in range(len(self.agents)):
            self._check_room(index, len(self._render(index, [round])))

    def answered(self, turn: Turn) -> Prompt:
        """The prompt that led to `turn`; that of a loaded turn is rendered again. Raises UsageError if its agent is not there any more."""
        if turn.parts:
            return Prompt(np.array([token for part in turn.parts for token in part.tokens], np.int32), turn.parts)
        if turn.index >= len(self.agents) or self.agents[turn.index].name != turn.agent:
            raise UsageError(f"the prompt of {turn.agent} is not known any more: the chain has other agents now")
        first = min(self.conversation.n_dropped, turn.round)
        return self._render(turn.index, self.conversation.rounds[first : turn.round + 1])

    def earlier_messages(self) -> Iterator[Tokens]:
        """For each agent the tokens that its next prompt will start with, whatever the next message is."""
        rounds = [replace(round, turns=list(round.turns)) for round in self.conversation.rounds_read]
        for index in range(len(self.agents)):
            prompt = self._render(index, [*rounds, Round("?")])
            last_user = max(at for at, part in enumerate(prompt.parts) if part.kind == "user")
            yield prompt.tokens[: sum(len(part.tokens) for part in prompt.parts[:last_user])]

    def _render(self, index: int, rounds: Sequence[Round]) -> Prompt:
        return self.builder.build(messages_for(self.agents, index, rounds))

    def _room(self, index: int) -> int:
        """Tokens that the prompt may have, so that the answer still fits."""
        return self.n_ctx - max(self.sampling_of(index).max_tokens, 1)

    def _check_room(self, index: int, n_prompt: int) -> None:
        if n_prompt > (room := self._room(index)):
            raise ContextOverflow(
                f"agent {self.agents[index].name}: its prompt of {n_prompt} tokens and {self.n_ctx - room} tokens of answer do not fit "
                f"the context of {self.n_ctx}; shorten the task, lower max tokens, or open the model with a larger context"
            )
