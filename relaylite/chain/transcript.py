"""The JSON form of a conversation: written by `Chain.to_dict`, read back with every field checked. Touches no file.

Token ids are kept where they still mean the same text, so that a loaded conversation can be relayed; otherwise the text counts and is
tokenized anew. Control tokens are dropped: `prompt` leaves them out of an answer in any case. An id that the vocabulary lacks is damage.
"""

from __future__ import annotations

import codecs
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from relaylite.chain.agents import Agent
from relaylite.chain.attachments import Attachment
from relaylite.chain.conversation import Conversation, Round
from relaylite.errors import UsageError
from relaylite.events import Turn
from relaylite.metrics import FINISH_CANCELLED, FINISH_LENGTH, FINISH_STOP, TtftParts, TurnMetrics
from relaylite.prompt.tokenizer import Tokenizer, known_ids

FORMAT = "relaylite-conversation"
VERSION = 1
MAX_TOKENS = 2**31  # of any vocabulary
FINISH_REASONS = (FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED)

_PROBE = "The quick brown fox — jumps over 12,345 lazy dogs.\n\n\tdef f(x):\r\n  return x**2  # naïve 日本語 🙂 <|im_start|>\x00"


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a file of a saved conversation holds."""

    agents: tuple[Agent, ...]
    policy: str
    conversation: Conversation


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
        "agents": [_agent_to_dict(agent) for agent in transcript.agents],
        "dropped_rounds": transcript.conversation.n_dropped,
        "rounds": [_round_to_dict(round) for round in transcript.conversation.rounds],
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
    return Transcript(agents, _text(top, "policy", "the conversation"), Conversation(rounds, n_dropped))


def _agent_to_dict(agent: Agent) -> dict[str, Any]:
    sampling = {key: list(value) if isinstance(value, tuple) else value for key, value in agent.sampling.items()}
    return {"name": agent.name, "instructions": agent.instructions, "reads": agent.reads, "sampling": sampling, "color": agent.color}


def _agent_from(data: object) -> Agent:
    each = _mapping(data, "an agent")
    instructions = _text(each, "instructions", "an agent")
    reads: Any = _text(each, "reads", "an agent")
    sampling = {
        name: tuple(value) if isinstance(value, list) else value for name, value in _mapping(each.get("sampling"), "sampling").items()
    }
    return Agent(_text(each, "name", "an agent"), instructions, reads, sampling, _text(each, "color", "an agent"))


def _round_to_dict(round: Round) -> dict[str, Any]:
    files = [{"source": file.source, "text": file.text} for file in round.files]
    return {"task": round.task, "files": files, "turns": [_turn_to_dict(turn) for turn in round.turns]}


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
