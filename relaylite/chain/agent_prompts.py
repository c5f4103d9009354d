"""`AgentPrompts`: the prompt of each agent in a conversation, and what of the conversation fits the context. Runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relaylite.chain.agents import Agent, unanswered
from relaylite.chain.conversation import Conversation, Round, messages_for
from relaylite.chain.role_sampling import sampling_of
from relaylite.errors import ContextOverflow, UsageError
from relaylite.events import PromptPart, Turn
from relaylite.metrics import FINISH_STOP
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
        return sampling_of(self.agents[index], self.told)

    def sampling_at(self, index: int, at: int) -> Sampling:
        """The same for its answer at that place of the last round: another attempt draws another seed."""
        number = len(self.conversation.rounds) - 1
        return self._seeded(index, self.conversation.branches.n_attempts((number, at), self.agents[index].name))

    def sampling_again(self, turn: Turn) -> Sampling:
        """The same for the answer that is there already. One that was cut or stopped is not to become longer. Raises as `place_of`."""
        sampling = self._seeded(self.place_of(turn), self.conversation.branches.attempt(turn))
        return sampling if turn.finish_reason == FINISH_STOP else replace(sampling, max_tokens=max(1, turn.metrics.generated_tokens))

    def of(self, index: int) -> Prompt:
        """What the agent at `index` is asked in the last round, with the answers that are there by now."""
        return self._render(index, self.conversation.rounds_read)

    def fitting(self, index: int, begun: Turn | None = None) -> tuple[Prompt, int]:
        """The same, with room for the answer, and how many rounds have to be dropped for it. Raises ContextOverflow.

        If rounds must go, more go than need be (`ROOM_AFTER_DROP`). `begun`: an answer that goes on; the prompt ends with it.
        """
        room, rounds, n_dropped = self._room(index), self.conversation.rounds, self.conversation.n_dropped
        is_open_ended = self.sampling_of(index).max_tokens < 0
        prompt = _with_begun(self._render(index, rounds[n_dropped:]), begun)
        if len(prompt) > room * (ROOM_AFTER_DROP if is_open_ended else 1):
            while len(prompt) > room * ROOM_AFTER_DROP and n_dropped < len(rounds) - 1:
                n_dropped += 1
                prompt = _with_begun(self._render(index, rounds[n_dropped:]), begun)
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
        first, last = min(self.conversation.n_dropped, turn.round), self.conversation.rounds[turn.round]
        until = replace(last, turns=last.turns[: turn.index])
        rounds = [*self.conversation.rounds[first : turn.round], until]
        return self.builder.build(messages_for(self.agents, self.place_of(turn), rounds, turn.index))

    def texts_before(self, turn: Turn) -> Iterator[tuple[Tokens, int]]:
        """Prompt and answer of each turn before that one, and where the answer starts; without those whose agent is not there any more."""
        rounds = self.conversation.rounds
        for earlier in [each for round in rounds[: turn.round] for each in round.turns] + rounds[turn.round].turns[: turn.index]:
            with suppress(UsageError):
                prompt = self.answered(earlier).tokens
                yield np.concatenate([prompt, np.array(earlier.tokens, np.int32)]), len(prompt)

    def place_of(self, turn: Turn) -> int:
        """The place in the chain of the agent that gave this answer. Raises UsageError if it is not there any more."""
        before = [each.agent for each in self.conversation.rounds[turn.round].turns[: turn.index]]
        place = next((index for index, _ in unanswered(self.agents, before) if self.agents[index].name == turn.agent), None)
        if place is None:
            raise UsageError(f"the prompt of {turn.agent} is not known any more: the chain has other agents now")
        return place

    def earlier_messages(self) -> Iterator[Tokens]:
        """For each agent the tokens that its next prompt will start with, whatever the next message is."""
        rounds = [replace(round, turns=list(round.turns)) for round in self.conversation.rounds_read]
        for index in range(len(self.agents)):
            prompt = self._render(index, [*rounds, Round("?")])
            last_user = max(at for at, part in enumerate(prompt.parts) if part.kind == "user")
            yield prompt.tokens[: sum(len(part.tokens) for part in prompt.parts[:last_user])]

    def _render(self, index: int, rounds: Sequence[Round]) -> Prompt:
        places = dict(unanswered(self.agents, [turn.agent for turn in rounds[-1].turns]))
        return self.builder.build(messages_for(self.agents, index, rounds, places.get(index)))

    def _seeded(self, index: int, attempt: int) -> Sampling:
        sampling = self.sampling_of(index)
        return sampling if sampling.is_greedy else replace(sampling, seed=(sampling.seed + attempt) % (MAX_SEED + 1))

    def _room(self, index: int) -> int:
        """Tokens that the prompt may have, so that the answer still fits."""
        return self.n_ctx - max(self.sampling_of(index).max_tokens, 1)

    def _check_room(self, index: int, n_prompt: int) -> None:
        if n_prompt > (room := self._room(index)):
            raise ContextOverflow(
                f"agent {self.agents[index].name}: its prompt of {n_prompt} tokens and {self.n_ctx - room} tokens of answer do not fit "
                f"the context of {self.n_ctx}; shorten the task, lower max tokens, or open the model with a larger context"
            )


def _with_begun(prompt: Prompt, begun: Turn | None) -> Prompt:
    if begun is None:
        return prompt
    part = PromptPart("answer", begun.agent, begun.tokens, begun.text)
    return Prompt(np.array([*prompt.tokens, *begun.tokens], np.int32), (*prompt.parts, part))
