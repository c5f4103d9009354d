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
from relaylite.prompt.messages import Answer, Message, Messages, Text, foldings, parted
from relaylite.prompt.template import ChatTemplate
from relaylite.prompt.tokenizer import Tokenizer
from relaylite.reuse.plan import Quote
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

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """The parts of answers, for `make_plan`."""
        starts = accumulate((len(part.tokens) for part in self.parts), initial=0)
        placed = zip(starts, self.parts, strict=False)
        return tuple(Quote(start, start + len(part.tokens), part.whole, part.offset) for start, part in placed if part.whole)


class PromptBuilder:
    """Builds the prompts of one model. Texts are tokenized once: the template's own, instructions and tasks come again and again."""

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        self._template, self._tokenizer = template, tokenizer
        self._has_channels = uses_channels(template.source)
        self._ids: _Remembered[tuple[str, bool], Ids] = _Remembered(self._tokenize, lambda key: len(key[0]))
        self._pieces: _Remembered[Ids, tuple[bytes, ...]] = _Remembered(lambda tokens: tuple(map(tokenizer.piece, tokens)), len)

    def build(self, messages: Sequence[Message]) -> Prompt:
        """The prompt that asks for the next answer after `messages`, or for the rest of one: that of an assistant's message at the end.

        Where the template refuses the roles as they come, they are folded (`messages.foldings`). Where it shortens a body, a text is
        cut exactly; of an answer those tokens are left out that lost more than white space, and a token cut in two is replaced by the
        tokens of its rest. Of an answer, control tokens are left out: only the template says where a message begins. So is, where the model
        writes in channels, what is not meant for the reader. Raises UsageError if the template refuses all the same.
        """
        kept = [replace(message, body=tuple(chain.from_iterable(map(self._said, message.body)))) for message in messages]
        asked, begun = parted(kept)
        folded = self._fold(asked or (Message("user", (Text(""),)),) if begun else asked)
        said = [(message.role, "".join(map(self._text, message.body))) for message in folded]
        parts: list[PromptPart] = []
        for piece in self._template.pieces(said):
            if piece.body is None:
                parts.append(self._template_part(piece.text))
            else:
                parts += self._body_parts(folded[piece.body].body, piece.start, piece.end)
        parts += self._body_parts(begun, 0, sum(len(self._text(part)) for part in begun))
        parts = [part for part in self._with_one_bos(parts) if part.tokens]
        if not parts:
            raise UsageError("the chat template makes nothing of this conversation; use --chat-template chatml")
        return Prompt(np.array([token for part in parts for token in part.tokens], np.int32), tuple(parts))

    def plain(self, body: Sequence[Text | Answer], *, parses_special: bool = False) -> Prompt:
        """`body` as it is, without a template. With `parses_special`, names of control tokens in its texts become those tokens."""
        parts: list[PromptPart] = []
        for part in body:
            text = self._text(part)
            if isinstance(part, Answer):
                parts += self._answer_parts(part, text, 0, len(text))
            else:
                parts.append(PromptPart(part.kind, part.source, self._ids[text, parses_special], text))
        parts = [part for part in self._with_one_bos(parts) if part.tokens]
        return Prompt(np.array([token for part in parts for token in part.tokens], np.int32), tuple(parts))

    def pieces(self, tokens: Ids) -> tuple[bytes, ...]:
        """The bytes of each token."""
        return self._pieces[tokens]

    def of_ids(self, ids: Ids) -> Prompt:
        """These tokens and no others."""
        text = b"".join(self._pieces[ids]).decode(errors="replace")
        return Prompt(np.array(ids, np.int32), (PromptPart("user", "", ids, text),) if ids else ())

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
            part = Answer(tuple(token for token, piece in zip(part.tokens, pieces, strict=True) if piece), part.source)
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
        yield replace(part, tokens=part.tokens[kept], whole=part.whole or part.tokens, offset=part.offset + kept.start)
        yield from (Text(tail.decode(errors="replace"), "answer", part.source) for _ in range(bool(tail)))

    def _fold(self, messages: Sequence[Message]) -> Messages:
        """The first form that the template takes, leaves nothing out of and mistakes for nothing else.

        If there is none, the first that it takes; if there is none of these either, as it is.
        """
        taken: list[Messages] = []
        for form in foldings(messages):
            roles = [message.role for message in form]
            if not self._template.refusal(roles):
                if not self._template.drops(roles) and not self._template.confuses(roles):
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

    def _body_parts(self, body: Sequence[Text | Answer], start: int, end: int) -> Iterator[PromptPart]:
        """The parts of the characters `[start, end)` of `body`."""
        position = 0
        for part in body:
            text = self._text(part)
            first, last = max(start - position, 0), min(end - position, len(text))
            position += len(text)
            if first < last:
                yield from self._text_parts(part, first, last) if isinstance(part, Text) else self._answer_parts(part, text, first, last)

    def _text_parts(self, part: Text, start: int, end: int) -> Iterator[PromptPart]:
        text = part.text[start:end]
        yield PromptPart(part.kind, part.source, self._ids[text, False], text)

    def _answer_parts(self, part: Answer, text: str, start: int, end: int) -> Iterator[PromptPart]:
        if start == 0 and end == len(text):
            yield PromptPart("answer", part.source, part.tokens, _shown(text), part.whole, part.offset)
            return
        for cut in self._cut_answer(part, text, start, end):
            if isinstance(cut, Answer):
                shown = b"".join(self._pieces[cut.tokens]).decode(errors="replace")
                yield PromptPart("answer", cut.source, cut.tokens, shown, cut.whole, cut.offset)
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
