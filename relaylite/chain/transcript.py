"""The JSON form of a conversation: written by `Chain.to_dict`, read back with every field checked. Touches no file.

`rounds` is the current branch. `branches` has all of them, null for that one: for each round the number of its message and those of its
answers. The messages and answers of `rounds` are counted first, then `messages` and `answers`, which hold those of the other branches.

Token ids are kept where they still mean the same text, so that a loaded conversation can be relayed; otherwise the text counts and is
tokenized anew. Control tokens are dropped: `prompt` leaves them out of an answer in any case. An id that the vocabulary lacks is damage.
"""

from __future__ import annotations

import codecs
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from relaylite.chain.agents import Agent
from relaylite.chain.attachments import Attachment
from relaylite.chain.branches import Branch, Branches
from relaylite.chain.conversation import Conversation, Round
from relaylite.chain.role_sampling import check_chosen
from relaylite.errors import UsageError
from relaylite.events import Turn
from relaylite.metrics import FINISH_CANCELLED, FINISH_LENGTH, FINISH_STOP, TtftParts, TurnMetrics
from relaylite.prompt.tokenizer import Tokenizer, known_ids

FORMAT = "relaylite-conversation"
VERSION = 2  # 1 had no branches
MAX_TOKENS = 2**31  # of any vocabulary
FINISH_REASONS = (FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED)

_PROBE = "The quick brown fox — jumps over 12,345 lazy dogs.\n\n\tdef f(x):\r\n  return x**2  # naïve 日本語 🙂 <|im_start|>\x00"


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a file of a saved conversation holds."""

    agents: tuple[Agent, ...]
    policy: str
    conversation: Conversation
    chosen: Mapping[str, Any] = field(default_factory=dict)  # sampling values, by name


def tokenizer_fingerprint(tokenizer: Tokenizer) -> str:
    """Equal where the same text has the same ids."""
    ids = [tokenizer.bos, *tokenizer.tokenize(_PROBE, parse_special=False), -1, *tokenizer.tokenize(_PROBE, parse_special=True)]
    return hashlib.sha256(repr(ids).encode()).hexdigest()[:16]


def to_dict(transcript: Transcript, model: str, fingerprint: str) -> dict[str, Any]:
    """Plain values, ready for json.dumps; `fingerprint` is that of the tokenizer."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": model,
        "tokenizer": fingerprint,
        "policy": transcript.policy,
        "sampling": _values_to_dict(transcript.chosen),
        "agents": [_agent_to_dict(agent) for agent in transcript.agents],
        "dropped_rounds": transcript.conversation.n_dropped,
        "rounds": [_round_to_dict(round) for round in transcript.conversation.rounds],
        **_branches_to_dict(transcript.conversation.branches),
    }


def from_dict(data: object, tokenizer: Tokenizer) -> Transcript:
    """Raises UsageError in one line if `data` is no conversation, is damaged, or was written by a newer relaylite."""
    top = _mapping(data, "the conversation")
    if top.get("format") != FORMAT:
        raise UsageError(f'this is no saved conversation: its "format" is not {FORMAT!r}')
    version = _whole(top, "version", "the conversation")
    if version > VERSION:
        raise UsageError(f"this conversation was saved by a newer relaylite (version {version}, known up to {VERSION}); update relaylite")
    keeps_ids = top.get("tokenizer") == tokenizer_fingerprint(tokenizer)
    rounds = [_round_from(each, number, tokenizer, keeps_ids) for number, each in enumerate(_list(top, "rounds", "the conversation"))]
    agents = tuple(_agent_from(each) for each in _list(top, "agents", "the conversation"))
    if not agents:
        raise UsageError("the conversation names no agents")
    n_dropped = min(max(_whole(top, "dropped_rounds", "the conversation"), 0), len(rounds))
    branches = _branches_from(top, rounds, tokenizer, keeps_ids) if version > 1 else Branches([rounds])
    chosen = _values_from(top.get("sampling", {}))  # conversations of earlier versions have none
    try:
        check_chosen(chosen)
    except UsageError as error:
        raise UsageError(f"damaged conversation: {error}") from error
    return Transcript(agents, _text(top, "policy", "the conversation"), Conversation.of(branches, n_dropped), chosen)


def _values_to_dict(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _values_from(data: object) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in _mapping(data, "sampling").items()}


def _agent_to_dict(agent: Agent) -> dict[str, Any]:
    sampling = _values_to_dict(agent.sampling)
    return {"name": agent.name, "instructions": agent.instructions, "reads": agent.reads, "sampling": sampling, "color": agent.color}


def _agent_from(data: object) -> Agent:
    each = _mapping(data, "an agent")
    instructions = _text(each, "instructions", "an agent")
    reads: Any = _text(each, "reads", "an agent")
    sampling = _values_from(each.get("sampling"))
    return Agent(_text(each, "name", "an agent"), instructions, reads, sampling, _text(each, "color", "an agent"))


def _round_to_dict(round: Round) -> dict[str, Any]:
    files = [{"source": file.source, "text": file.text} for file in round.files]
    return {"task": round.task, "files": files, "turns": [_turn_to_dict(turn) for turn in round.turns]}


def _branches_to_dict(branches: Branches) -> dict[str, Any]:
    messages, answers = list(branches.rounds), [turn for round in branches.rounds for turn in round.turns]
    number_of = {(round.task, round.files): number for number, round in reversed([*enumerate(messages)])}
    number_of_answer = {id(turn): number for number, turn in enumerate(answers)}
    n_messages, n_answers = len(messages), len(answers)
    for round in [round for branch in branches.every for round in branch]:
        if (round.task, round.files) not in number_of:
            number_of[round.task, round.files] = len(messages)
            messages.append(replace(round, turns=[]))
        for turn in round.turns:
            if id(turn) not in number_of_answer:
                number_of_answer[id(turn)] = len(answers)
                answers.append(turn)

    def numbers(branch: Branch) -> list[list[Any]]:
        return [[number_of[round.task, round.files], [number_of_answer[id(turn)] for turn in round.turns]] for round in branch]

    return {
        "branches": [None if branch is branches.rounds else numbers(branch) for branch in branches.every],
        "left": list(branches.left),
        "undone": list(branches.undone),
        "messages": [_round_to_dict(round) for round in messages[n_messages:]],
        "answers": [_turn_to_dict(turn) for turn in answers[n_answers:]],
    }


def _turn_to_dict(turn: Turn) -> dict[str, Any]:
    return {
        "agent": turn.agent,
        "text": turn.text,
        "tokens": list(turn.tokens),
        "finish_reason": turn.finish_reason,
        "was_edited": turn.was_edited,
        "metrics": asdict(turn.metrics),
    }


def _round_from(data: object, number: int, tokenizer: Tokenizer, keeps_ids: bool) -> Round:
    what = f"round {number + 1}"
    each = _mapping(data, what)
    files = [_mapping(file, f"a file of {what}") for file in _list(each, "files", what)]
    round = Round(
        _text(each, "task", what), files=tuple(Attachment(_text(file, "source", what), _text(file, "text", what)) for file in files)
    )
    for index, turn in enumerate(_list(each, "turns", what)):
        round.turns.append(_turn_from(_mapping(turn, f"an answer of {what}"), number, index, tokenizer, keeps_ids))
    return round


def _branches_from(top: Mapping[str, Any], rounds: Branch, tokenizer: Tokenizer, keeps_ids: bool) -> Branches:
    what = "the conversation"
    messages = [*rounds, *(_round_from(each, -1, tokenizer, keeps_ids) for each in _list(top, "messages", what))]
    beside = (_turn_from(_mapping(each, "an answer"), -1, -1, tokenizer, keeps_ids) for each in _list(top, "answers", what))
    answers = [*(turn for round in rounds for turn in round.turns), *beside]

    def answer(number: object, round: int, index: int) -> Turn:
        place = _number(number, answers)
        if answers[place].round < 0:
            answers[place] = replace(answers[place], round=round, index=index)
        turn = answers[place]
        if (turn.round, turn.index) != (round, index):
            raise UsageError(f"damaged conversation: {turn.agent}'s answer stands in two places")
        return turn

    def branch(data: object) -> Branch:
        found: Branch = []
        for each in data if isinstance(data, list) else [data]:
            if not isinstance(each, list) or len(each) != 2 or not isinstance(each[1], list):
                raise UsageError("damaged conversation: a round of a branch is not a message and answers")
            turns = [answer(number, len(found), index) for index, number in enumerate(each[1])]
            found.append(replace(messages[_number(each[0], messages)], turns=turns))
        return found

    saved = _list(top, "branches", what)
    every = [rounds if each is None else branch(each) for each in saved]
    if saved.count(None) != 1:
        raise UsageError("damaged conversation: not one of its branches is the current one")
    left, undone = ([_number(each, every) for each in _list(top, key, what)] for key in ("left", "undone"))
    return Branches(every, saved.index(None), left, undone)


def _number(value: object, among: Sequence[object]) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < len(among):
        raise UsageError(f"damaged conversation: {value!r} is no number from 0 to {len(among) - 1}")
    return value


def _turn_from(data: Mapping[str, Any], number: int, index: int, tokenizer: Tokenizer, keeps_ids: bool) -> Turn:
    what = f"answer {index + 1} of round {number + 1}"
    text = _text(data, "text", what)
    ids = known_ids(_list(data, "tokens", what), tokenizer.n_tokens if keeps_ids else MAX_TOKENS, f"damaged conversation: {what}")
    tokens = tuple(token for token in ids if tokenizer.piece(token)) if keeps_ids else ()
    if not (keeps_ids and spells(tokenizer, tokens, text)):
        tokens = tuple(tokenizer.tokenize(text, parse_special=False))
    finish_reason = _text(data, "finish_reason", what)
    if finish_reason not in FINISH_REASONS:
        raise UsageError(f"{what}: finish_reason is {finish_reason!r}; it can be {', '.join(FINISH_REASONS)}")
    metrics = _metrics_from(_mapping(data.get("metrics"), f"the metrics of {what}"))
    return Turn(_text(data, "agent", what), index, number, text, tokens, finish_reason, metrics, was_edited=data.get("was_edited") is True)


def spells(tokenizer: Tokenizer, tokens: Sequence[int], text: str) -> bool:
    """Whether `tokens` (of this vocabulary) are plain tokens whose text is `text`; bytes of a character that was cut may follow."""
    pieces = [tokenizer.piece(token) for token in tokens]
    shown = codecs.getincrementaldecoder("utf-8")("replace").decode(b"".join(pieces))  # as `TextStream` shows them
    return all(pieces) and shown == text


def _metrics_from(data: Mapping[str, Any]) -> TurnMetrics:
    parts = data.get("ttft_parts_ms")
    ttft_parts = TtftParts(**_numbers(TtftParts, parts if isinstance(parts, Mapping) else {}))
    return replace(TurnMetrics(**_numbers(TurnMetrics, data)), ttft_parts_ms=ttft_parts)


def _numbers(of: type[TurnMetrics] | type[TtftParts], data: Mapping[str, Any]) -> dict[str, Any]:
    """The values that `of` knows; others, and what is no number, are left out."""
    names = [field.name for field in fields(of) if field.type in ("int", "float")]
    given = {name: data.get(name) for name in names}
    return {name: value for name, value in given.items() if type(value) is int or (type(value) is float and math.isfinite(value))}


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"damaged conversation: {what} is not an object")
    return value


def _list(data: Mapping[str, Any], key: str, what: str) -> list[Any]:
    value = data.get(key)
    if not isinstance(value, list | tuple):
        raise UsageError(f"damaged conversation: {what} has no list {key!r}")
    return list(value)


def _text(data: Mapping[str, Any], key: str, what: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise UsageError(f"damaged conversation: {what} has no text {key!r}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise UsageError(f"damaged conversation: {key!r} of {what} holds half a character")
    return value


def _whole(data: Mapping[str, Any], key: str, what: str) -> int:
    value = data.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"damaged conversation: {what} has no whole number {key!r}")
    return value
