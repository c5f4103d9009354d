"""The sentences that a run tells the user besides the answers. Pure functions; a sentence that has nothing to say is ""."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from relaylite.events import Turn
from relaylite.metrics import CellMap
from relaylite.reuse.policies import Policy


def relaying_is_off(refusal: str | None, policy: Policy) -> str:
    """`refusal`: why the model cannot relay, None if it can. "" if `policy` would not relay anyway."""
    return f"relaying is off for this model: {refusal}; running with policy prefix" if refusal and policy.use_spans else ""


def rounds_no_longer_read(n_dropped: int, n_ctx: int) -> str:
    return f"the conversation outgrew the context of {n_ctx}: rounds before round {n_dropped + 1} are no longer read"


def rows_not_kept(agent: str, error: BaseException) -> str:
    return f"the rows of {agent}'s turn could not be kept, so later turns compute them again: {error}"


def answer_looped(agent: str, n_tokens: int) -> str:
    """`n_tokens`: of the sequence that was repeated."""
    what = "one token" if n_tokens == 1 else f"the same {n_tokens} tokens"
    return f"{agent}'s answer repeated {what} over and over and was ended; `ends_loops = false` lets answers go on"


def why_nothing_relayed(turns: Iterable[Turn], policy: Policy) -> str:
    """Why a round relayed no answer, judged by what its turns say of themselves.

    "" if nothing was lost: an answer was relayed or stood in place, no agent read one, what was new of them is too short to be worth
    relaying, or `policy` relays nothing.
    """
    read = [answer for turn in turns for answer in _answers_behind_prefix(turn)]
    if not policy.use_spans or not read or any(was_relayed for _, was_relayed in read):
        return ""
    if max(n for n, _ in read) <= policy.min_span:  # the last token of an answer may have no row
        return ""
    return (
        "the agents' answers were read anew instead of taken over, which costs time only: they were edited, come from an earlier run,"
        " are changed by the chat template, or did not fit the memory for them (store.ram)"
    )


def _answers_behind_prefix(turn: Turn) -> Iterator[tuple[int, bool]]:
    """The answers in a prompt that end behind what was taken over in place: how much of each, and whether any was relayed."""
    end = 0
    for part in turn.parts:
        start, end = end, end + len(part.tokens)
        if part.kind == "answer" and end > turn.metrics.prefix_tokens:
            cells = turn.cells.cells[:, start:end] if turn.cells is not None else None
            was_relayed = cells is not None and bool(((cells == CellMap.REUSED) | (cells == CellMap.RECOMPUTED)).any())
            yield end - max(start, turn.metrics.prefix_tokens), was_relayed
