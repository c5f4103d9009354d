"""What each agent is asked, and what of a conversation fits the context: arithmetic on prompts, without an engine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.fakes import ByteTokenizer

from relaylite.chain.agent_prompts import ROOM_AFTER_DROP, AgentPrompts
from relaylite.chain.agents import Agent
from relaylite.chain.conversation import Conversation, Round
from relaylite.errors import ContextOverflow, UsageError
from relaylite.events import Turn
from relaylite.metrics import TurnMetrics
from relaylite.prompt.builder import PromptBuilder
from relaylite.prompt.template import CHATML, ChatTemplate

PLAN, CODE = Agent("plan", "Make a plan."), Agent("code", "Write the code.", sampling={"max_tokens": 50})
TOKENIZER = ByteTokenizer()


def prompts(n_rounds: int, n_ctx: int, max_tokens: int = 10) -> AgentPrompts:
    """Of a conversation whose rounds, but for the last one, both agents have answered."""
    said = Conversation([Round(f"Task {number}.") for number in range(n_rounds)])
    for number, each in enumerate(said.rounds[:-1]):
        each.turns = [answer(agent.name, index, number) for index, agent in enumerate((PLAN, CODE))]
    return AgentPrompts(said, (PLAN, CODE), {"max_tokens": max_tokens}, PromptBuilder(ChatTemplate(CHATML), TOKENIZER), n_ctx)


def answer(agent: str, index: int, round: int) -> Turn:
    return Turn(agent, index, round, "x" * 20, tuple(b"x" * 20), "stop", TurnMetrics())


def test_a_prompt_that_fits_drops_nothing() -> None:
    asked = prompts(4, n_ctx=4096)
    prompt, n_dropped = asked.fitting(0)
    assert n_dropped == 0 and prompt.tokens.tolist() == asked.of(0).tokens.tolist()


@pytest.mark.parametrize(("max_tokens", "share"), [(10, 1.0), (-1, ROOM_AFTER_DROP)])
def test_rounds_go_when_prompt_and_answer_do_not_fit_and_not_before(max_tokens: int, share: float) -> None:
    """An answer without limit gets a share of the room from the start."""
    asked = prompts(6, n_ctx=4096, max_tokens=max_tokens)
    n_ctx = round(len(asked.of(0)) / share) + max(max_tokens, 1)
    assert replace(asked, n_ctx=n_ctx).fitting(0)[1] == 0
    prompt, n_dropped = replace(asked, n_ctx=n_ctx - 2).fitting(0)
    assert n_dropped > 0 and len(prompt) <= ROOM_AFTER_DROP * (n_ctx - 2)
    assert asked.conversation.n_dropped == 0  # fitting decides and changes nothing


def test_rounds_that_were_dropped_stay_dropped() -> None:
    asked = prompts(4, n_ctx=4096)
    asked.conversation.n_dropped = 2
    prompt, n_dropped = asked.fitting(0)
    text = TOKENIZER.text(prompt.tokens)
    assert n_dropped == 2 and "Task 1." not in text and "Task 2." in text


def test_an_agents_own_limit_counts() -> None:
    asked = prompts(1, n_ctx=4096)
    n_prompts = [len(asked.of(index)) for index in range(2)]
    replace(asked, n_ctx=n_prompts[1] + 50).check_fits(asked.conversation.rounds[0])
    with pytest.raises(ContextOverflow, match=rf"^agent code: its prompt of {n_prompts[1]} tokens and 50 tokens of answer do not fit"):
        replace(asked, n_ctx=n_prompts[1] + 49).check_fits(asked.conversation.rounds[0])


def test_the_last_round_is_never_dropped() -> None:
    with pytest.raises(ContextOverflow, match=r"^agent plan: "):
        prompts(3, n_ctx=40).fitting(0)


def test_earlier_messages_are_what_the_next_prompt_starts_with_whatever_is_said() -> None:
    asked = prompts(3, n_ctx=4096)
    starts = list(asked.earlier_messages())
    for task in ("Again.", "?", "\n"):
        asked.conversation.rounds.append(Round(task))
        for index, start in enumerate(starts):
            assert asked.of(index).tokens[: len(start)].tolist() == start.tolist()
        asked.conversation.rounds.pop()
    assert [TOKENIZER.text(start).count("x" * 20) for start in starts] == [2, 4]  # its own, and those that it read


def test_the_prompt_of_a_loaded_answer_is_made_again_unless_the_agents_have_changed() -> None:
    asked = prompts(3, n_ctx=4096)
    [_, code] = asked.conversation.rounds[1].turns
    assert TOKENIZER.text(asked.answered(code).tokens).count("Task") == 2
    with pytest.raises(UsageError, match="the prompt of code is not known any more"):
        replace(asked, agents=(CODE, PLAN)).answered(code)
