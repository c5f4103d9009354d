"""`KnownAnswers`: answers that were generated earlier, found again in the text of messages, so that their own ids can be spliced in.

A text that quotes an answer is tokenized as its author's tokenizer would; the ids that were sampled may be others, and rows are found by
ids. Found are runs of bytes: verbatim ones, and such that were escaped as JSON or by Python's repr.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from threading import Lock

from relaylite.prompt.messages import Answer, Text, TextKind
from relaylite.prompt.quotation import (
    LEAST_BYTES,
    Known,
    Run,
    filled,
    ids_of,
    longest_first,
    quotations,
    token_runs,
)
from relaylite.prompt.unescaped import View, views
from relaylite.reuse.overlaps import Overlap, OverlapIndex, window_for
from relaylite.reuse.planner import MIN_QUOTED
from relaylite.reuse.rows import Tokens

LEAST_TOKENS = 6  # of an answer in all, so that it counts as quoted
MAX_BYTES = 4 * 2**20  # of answers; remembering one takes seven times its bytes
MAX_ANSWERS = 4096
MAX_LEARNT = 512  # answers of an earlier process
MAX_TEXT_BYTES = 4 * 2**20  # a longer text is not searched: it fits no context
_MAX_REPEATS = 64  # the same bytes in a text: lines of dashes, columns of blanks
_BLOCK = 2**16  # bytes that are looked up at once


@dataclass(frozen=True, slots=True)
class Located:
    """A place where a text quotes an answer of `source`, of `n_tokens`, and how many of them were found there.

    The others were cut off at its start (`n_before`) or its end (`n_behind`), or stand otherwise in the text: `n_changed`.
    """

    source: str
    n_tokens: int
    n_found: int
    n_before: int
    n_behind: int

    @property
    def n_changed(self) -> int:
        return self.n_tokens - self.n_found - self.n_before - self.n_behind


@dataclass(frozen=True, slots=True)
class Split:
    """A text as `parts`, whose bytes are those of the text, and what of earlier answers was found in it, in the order of the text."""

    parts: tuple[Text | Answer, ...]
    located: tuple[Located, ...] = ()


class KnownAnswers:
    """The answers that were seen last, up to `max_bytes` of text and `max_answers`. May be used from several threads."""

    def __init__(self, max_bytes: int = MAX_BYTES, max_answers: int = MAX_ANSWERS) -> None:
        self._max_bytes, self._max_answers = max_bytes, max_answers
        self._lock = Lock()
        self._keys = count()
        self._answers: OrderedDict[int, tuple[str, Known]] = OrderedDict()  # the one seen last at the end, with its scope
        self._key_of: dict[tuple[str, tuple[int, ...]], int] = {}
        self._indexes: dict[str, OverlapIndex] = {}
        self._n_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def n_bytes(self) -> int:
        return self._n_bytes

    def add(self, tokens: Sequence[int], pieces: Sequence[bytes], source: str, *, scope: str = "") -> None:
        """Remember an answer: its ids, the bytes of each, and where it is from. Only texts of the same scope are searched for it.

        One with the same ids that is known already is from `source` from now on. One too short or too long to be remembered is not.
        """
        known = Known.of(tokens, pieces, source)
        if len(known.tokens) < LEAST_TOKENS or not LEAST_BYTES <= len(known.text) <= self._max_bytes:
            return
        with self._lock:
            if (old := self._key_of.get((scope, known.tokens))) is not None:
                self._forget(old)
            key = next(self._keys)
            self._answers[key] = scope, known
            self._key_of[scope, known.tokens] = key
            self._n_bytes += len(known.text)
            self._indexes.setdefault(scope, OverlapIndex(window_for(LEAST_BYTES), _MAX_REPEATS)).add(key, ids_of(known.text))
            while self._n_bytes > self._max_bytes or len(self._answers) > self._max_answers:
                self._forget(next(iter(self._answers)))

    def learn(self, answers: Sequence[tuple[Sequence[int] | Tokens, str]], piece: Callable[[int], bytes], *, scope: str = "") -> None:
        """Remember the last `MAX_LEARNT` of `answers` of an earlier process, ids and source of each (`Store.answers`).

        `piece` gives the bytes of a token. Takes about a millisecond for each answer.
        """
        piece_of = cache(piece)
        for tokens, source in answers[-MAX_LEARNT:]:
            ids = [int(token) for token in tokens]
            self.add(ids, [piece_of(token) for token in ids], source, scope=scope)

    def split(self, text: str, *, kind: TextKind = "user", source: str = "", scope: str = "") -> Split:
        """`text`, with what it quotes of known answers as `Answer`s. The rest are texts of `kind` and `source`.

        Answers that are found count as seen. Raises UsageError for a lone surrogate (`Text`).
        """
        whole, content = Text(text, kind, source), text.encode()
        with self._lock:
            index = self._indexes.get(scope)
            found = self._runs(content, index) if index is not None and len(content) <= MAX_TEXT_BYTES else []
            known = {run.key: self._answers[run.key][1] for run in found}
            for key in known:
                self._answers.move_to_end(key)
        cuts: list[tuple[int, int, Answer]] = []
        located = []
        for runs in quotations(filled(found, known, content)):
            answer = known[runs[0].key]
            taken = [(run, *tokens) for run in runs for tokens in token_runs(run, answer, content)]
            taken = [(run, first, end) for run, first, end in taken if end - first >= MIN_QUOTED]
            n_found = sum(end - first for _, first, end in taken)
            if n_found >= LEAST_TOKENS:
                located.append(Located(answer.source, len(answer.tokens), n_found, taken[0][1], len(answer.tokens) - taken[-1][2]))
                for run, first, end in taken:
                    start, stop = (answer.borders[border] - run.shift for border in (first, end))
                    cuts.append((start, stop, _part(answer, first, end)))
        return Split(_parts(whole, content, sorted(cuts, key=lambda cut: cut[0])), tuple(located))

    def _runs(self, content: bytes, index: OverlapIndex) -> list[Run]:
        finds = [_find(view, overlap) for view in views(content) for overlap in _overlaps(view.content, index)]
        return longest_first([runs for runs in finds if runs], len(content))

    def _forget(self, key: int) -> None:
        scope, known = self._answers.pop(key)
        del self._key_of[scope, known.tokens]
        self._n_bytes -= len(known.text)
        index = self._indexes[scope]
        index.discard(key)
        if not len(index):
            del self._indexes[scope]


def _overlaps(content: bytes, index: OverlapIndex) -> list[Overlap]:
    """What `content` shares with the index, block by block: blocks share as much as the shortest overlap has, and are joined again."""
    ids = ids_of(content)
    found: list[Overlap] = []
    for start in range(0, len(ids), _BLOCK):
        block = ids[start : start + _BLOCK + LEAST_BYTES]
        found += [Overlap(start + each.start, each.n, each.key, each.offset) for each in index.find(block, LEAST_BYTES)]
    if len(ids) <= _BLOCK:
        return found
    joined: list[Overlap] = []
    for each in sorted(found, key=lambda each: (each.key, each.offset - each.start, each.start)):
        last = joined[-1] if joined else None
        if last and (last.key, last.offset - last.start) == (each.key, each.offset - each.start) and each.start <= last.end:
            joined[-1] = Overlap(last.start, max(last.end, each.end) - last.start, last.key, last.offset)
        else:
            joined.append(each)
    return joined


def _find(view: View, overlap: Overlap) -> list[Run]:
    """The overlap of a view as runs of the text."""
    shift = overlap.offset - overlap.start
    return [
        Run(each.place, each.place + each.end - each.start, overlap.key, each.start + shift, view, each.start)
        for each in view.within(overlap.start, overlap.end)
    ]


def _part(answer: Known, first: int, end: int) -> Answer:
    if end - first == len(answer.tokens):
        return Answer(answer.tokens, answer.source)
    return Answer(answer.tokens[first:end], answer.source, answer.tokens, first)


def _parts(whole: Text, content: bytes, cuts: Sequence[tuple[int, int, Answer]]) -> tuple[Text | Answer, ...]:
    """`content`, that of `whole`, with answers in place of the cuts."""
    if not cuts:
        return (whole,)
    parts: list[Text | Answer] = []
    at = 0
    for start, end, answer in cuts:
        parts += [Text(content[at:start].decode(), whole.kind, whole.source)] if at < start else []
        parts.append(answer)
        at = end
    return (*parts, *([Text(content[at:].decode(), whole.kind, whole.source)] if at < len(content) else []))
