"""`PromptBuilder`: makes tokens of messages, part by part. An agent's answer goes in by its ids and is never tokenized again.

It knows the template and a tokenizer, no model and no rows.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from relaylite.errors import UsageError
from relaylite.events import PromptPart
from relaylite.prompt.channels import said, uses_channels
from relaylite.prompt.messages import Answer, Message, Messages, Text, foldings
from relaylite.prompt.outline import PromptPiece
from relaylite.prompt.template import ChatTemplate
from relaylite.prompt.tokenizer import Tokenizer
from relaylite.reuse.rows import Tokens

Ids = tuple[int, ...]
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_LONG_STRETCH = 2**14  # characters
_STRETCH_END = re.compile(r"\w(?=\s)")
_CACHED_ITEMS = 2**20  # characters and tokens whose other form is remembered


@dataclass(frozen=True, slots=True)
class Prompt:
    """`tokens`, int32 `[n]`, and the same as `parts`, one behind the other."""

    tokens: Tokens
    parts: tuple[PromptPart, ...]

    def __len__(self) -> int:
        return len(self.tokens)


class PromptBuilder:
    """Builds the prompts of one model. Texts are tokenized once: the template's own, instructions and tasks come again and again."""

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        self._template, self._tokenizer = template, tokenizer
        self._has_channels = uses_channels(template.source)
        self._ids: _Remembered[tuple[str, bool], Ids] = _Remembered(self._tokenize, lambda key: len(key[0]))
        self._pieces: _Remembered[Ids, tuple[bytes, ...]] = _Remembered(lambda tokens: tuple(map(tokenizer.piece, tokens)), len)

    def build(self, messages: Sequence[Message]) -> Prompt:
        """The prompt that asks for the next answer after `messages`.

        Where the template refuses the roles as they come, they are folded (`messages.foldings`). Where it shortens a body, a text is
        cut exactly; of an answer those tokens are left out that lost more than white space, and a token cut in two is replaced by the
        tokens of its rest. Of an answer, control tokens are left out: only the template says where a message begins. So is, where the model
        writes in channels, what is not meant for the reader. Raises UsageError if the template refuses all the same.
        """
        folded = self._fold([replace(message, body=tuple(chain.from_iterable(map(self._said, message.body)))) for message in messages])
        said = [(message.role, "".join(map(self._text, message.body))) for message in folded]
        parts: list[PromptPart] = []
        for piece in self._template.pieces(said):
            parts += [self._template_part(piece.text)] if piece.body is None else self._body_parts(piece, folded[piece.body])
        parts = [part for part in self._with_one_bos(parts) if part.tokens]
        if not parts:
            raise UsageError("the chat template makes nothing of this conversation; use --chat-template chatml")
        return Prompt(np.array([token for part in parts for token in part.tokens], np.int32), tuple(parts))

    def _tokenize(self, text_and_special: tuple[str, bool]) -> Ids:
        text, parse_special = text_and_special
        return tuple(token for stretch in _stretches(text) for token in self._tokenizer.tokenize(stretch, parse_special=parse_special))

    def _said(self, part: Text | Answer) -> Iterator[Text | Answer]:
        """Of an answer, what of it goes into a prompt."""
        if isinstance(part, Text):
            yield part
            return
        pieces = self._pieces[part.tokens]
        if not all(pieces):
            part = replace(part, tokens=tuple(token for token, piece in zip(part.tokens, pieces, strict=True) if piece))
        text = self._text(part) if self._has_channels else ""
        start, end = said(text)
        yield from (part,) if (start, end) == (0, len(text)) else self._cut_answer(part, text, start, end)

    def _cut_answer(self, part: Answer, text: str, start: int, end: int) -> Iterator[Text | Answer]:
        """The answer's characters `[start, end)`: tokens as they were sampled, and texts where one was cut in two."""
        if start == end:
            return
        pieces = self._pieces[part.tokens]
        head, kept, tail = _tokens_within(pieces, *(len(text[:at].encode("utf-8", "surrogateescape")) for at in (start, end)))
        yield from (Text(head.decode(errors="replace"), "answer", part.source) for _ in range(bool(head)))
        yield replace(part, tokens=part.tokens[kept])
        yield from (Text(tail.decode(errors="replace"), "answer", part.source) for _ in range(bool(tail)))

    def _fold(self, messages: Sequence[Message]) -> Messages:
        """The first form that the template takes and leaves nothing out of, else the first that it takes, else as it is."""
        taken: list[Messages] = []
        for form in foldings(messages):
            roles = [message.role for message in form]
            if not self._template.refusal(roles):
                if not self._template.drops(roles):
                    return form
                taken.append(form)
        return taken[0] if taken else tuple(messages)

    def _text(self, part: Text | Answer) -> str:
        """Bytes of an answer that are no whole character become lone surrogates here, one each: so characters can be counted back."""
        return part.text if isinstance(part, Text) else b"".join(self._pieces[part.tokens]).decode("utf-8", "surrogateescape")

    def _template_part(self, text: str) -> PromptPart:
        return PromptPart("template", "", self._ids[text, True], text)

    def _with_one_bos(self, parts: list[PromptPart]) -> list[PromptPart]:
        """The tokenizer's BOS first, whether the template prints none, one or several."""
        bos = self._tokenizer.bos
        if bos is None:
            return parts
        first, *rest = parts if parts and parts[0].kind == "template" else [PromptPart("template", "", (), ""), *parts]
        n_printed = next((n for n, token in enumerate(first.tokens) if token != bos), len(first.tokens))
        return [replace(first, tokens=(bos, *first.tokens[n_printed:])), *rest]

    def _body_parts(self, piece: PromptPiece, message: Message) -> Iterator[PromptPart]:
        """The parts of `message` between the piece's characters."""
        position = 0
        for part in message.body:
            text = self._text(part)
            start, end = max(piece.start - position, 0), min(piece.end - position, len(text))
            position += len(text)
            if start < end:
                yield from self._text_parts(part, start, end) if isinstance(part, Text) else self._answer_parts(part, text, start, end)

    def _text_parts(self, part: Text, start: int, end: int) -> Iterator[PromptPart]:
        text = part.text[start:end]
        yield PromptPart(part.kind, part.source, self._ids[text, False], text)

    def _answer_parts(self, part: Answer, text: str, start: int, end: int) -> Iterator[PromptPart]:
        if start == 0 and end == len(text):
            yield PromptPart("answer", part.source, part.tokens, _shown(text))
            return
        for cut in self._cut_answer(part, text, start, end):
            if isinstance(cut, Answer):
                yield PromptPart("answer", cut.source, cut.tokens, b"".join(self._pieces[cut.tokens]).decode(errors="replace"))
            elif cut.text.strip():
                yield PromptPart("answer", cut.source, self._ids[cut.text, False], cut.text)


class _Remembered(Generic[Key, Value]):
    """Remembers what `make` gave for the keys that were asked for last, up to `_CACHED_ITEMS` of length in all keys together."""

    def __init__(self, make: Callable[[Key], Value], length: Callable[[Key], int]) -> None:
        self._make, self._length, self._n_items = make, length, 0
        self._known: OrderedDict[Key, Value] = OrderedDict()
        self._lock = Lock()

    def __getitem__(self, key: Key) -> Value:
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        value = self._make(key)
        with self._lock:
            self._n_items += self._length(key) + 1 if key not in self._known else 0
            self._known[key] = value
            while self._n_items > _CACHED_ITEMS:
                self._n_items -= self._length(self._known.popitem(last=False)[0]) + 1
        return value


def _stretches(text: str) -> Iterator[str]:
    """A long text in stretches that end where no token spans two of them: before white space, after a letter or digit.

    llama.cpp's SentencePiece takes time by the square of the length: 187 s for a million line breaks, measured. A stretch that has no
    such place is cut at its limit.
    """
    start = 0
    while len(text) - start > _LONG_STRETCH:
        found = _STRETCH_END.search(text, start + _LONG_STRETCH // 2, start + _LONG_STRETCH)
        end = found.end() if found else start + _LONG_STRETCH
        yield text[start:end]
        start = end
    yield text[start:]


def _shown(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode(errors="replace")


def _tokens_within(pieces: Sequence[bytes], start: int, end: int) -> tuple[bytes, slice, bytes]:
    """The tokens that stand for the bytes `[start, end)`, and before and behind them the rest of a token that was cut.

    A token of which only white space was cut off stays whole.
    """
    ends = list(accumulate(map(len, pieces)))
    first, last = bisect_right(ends, start), bisect_left(ends, end)

    def rest(i: int) -> bytes | None:
        piece, begin = pieces[i], ends[i] - len(pieces[i])
        low, high = max(start - begin, 0), end - begin
        return piece[low:high] if (piece[:low] + piece[high:]).strip() else None

    head = rest(first)
    tail = rest(last) if last > first else None
    kept = slice(first if head is None else first + 1, last + 1 if tail is None else last)
    return head or b"", kept, tail or b""
