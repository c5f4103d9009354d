"""Outlines of message bodies: the words in a body that a chat template looks for (landmarks), and the fragments of text between them.

A template that looks for `</think>` sees two fragments in `<think>hm</think>Done.`. It may drop the first one, wrap it anew, or leave it.
Values and text only; `template.py` finds out what a template does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from relaylite.prompt.alignment import Range

PLACE = "\0"  # stands for a fragment in the form of a body
_MAX_LANDMARKS = 64  # a body with more of them is one fragment
_LANDMARK = re.compile(r"</?(?:\w+:)?think(?:ing)?>|\[/?THINK\]|(?<=['\"\s])/[a-z_]+")


@dataclass(frozen=True, slots=True)
class PromptPiece:
    """Template text (`body` is None), or the characters `[start, end)` of the text of message number `body`."""

    text: str
    body: int | None = None
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Fragment:
    """Characters `[start, end)` of a body. `[low, start)` are landmarks and blanks, back to the fragment before or the start."""

    body: int
    start: int
    end: int
    low: int


class Landmarks:
    """The landmarks that a template looks for. None of them can end a turn: they may pass for template text."""

    def __init__(self, source: str) -> None:
        words = sorted(set(_LANDMARK.findall(source)), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, words))) if words else None

    def outline(self, body: int, text: str) -> tuple[str, list[Fragment]]:
        """The form of `text`, with `PLACE` for each of its fragments; blanks stay, since templates look for empty texts."""
        found = [match.span() for match in self._pattern.finditer(text)] if self._pattern else []
        landmarks = [*(found if len(found) <= _MAX_LANDMARKS else ()), (len(text), len(text))]
        form, runs, at = "", list[Range](), 0
        for start, end in landmarks:
            if text[at:start].strip():
                form += PLACE
                runs.append((at, start))
            else:
                form += text[at:start]
            form += text[start:end]
            at = end
        lows = [0, *(end for _, end in runs)]
        return form, [Fragment(body, start, end, low) for (start, end), low in zip(runs, lows, strict=False)]


def join(texts: Sequence[str], fragments: Sequence[Fragment], kept: Sequence[Range], bodies: Sequence[str]) -> tuple[PromptPiece, ...]:
    """Pieces of `texts[0]`, what was kept of `fragments[0]`, `texts[1]`, …, `texts[-1]`; landmarks go back to their bodies."""
    pieces: list[PromptPiece] = []
    before: Fragment | None = None
    for text, fragment, (start, end) in zip(texts, [*fragments, None], [*kept, (0, 0)], strict=True):
        pieces += _between(text, before, fragment, bodies)
        if fragment:
            pieces.append(_piece(bodies, fragment.body, fragment.start + start, fragment.start + end))
        before = fragment
    return tuple(_merged(piece for piece in pieces if piece.text))


def _between(text: str, before: Fragment | None, after: Fragment | None, bodies: Sequence[str]) -> Iterator[PromptPiece]:
    """`text` that stands between two fragments: what of it belongs to the one before, to the template, and to the one after."""
    if before and after and before.body == after.body and before.end == after.low:
        is_body = text == bodies[before.body][before.end : after.start]
        yield _piece(bodies, before.body, before.end, after.start) if is_body else PromptPiece(text)
        return
    start, end = 0, len(text)
    if before:
        tail = bodies[before.body][before.end :]
        start = next(len(rest) for rest in (tail, tail.rstrip(), "") if text.startswith(rest))
        yield _piece(bodies, before.body, before.end, before.end + start)
    if after:
        head = bodies[after.body][: after.start]
        end -= next(len(rest) for rest in (head, head.lstrip(), "") if text.endswith(rest) and len(rest) <= end - start)
    yield PromptPiece(text[start:end])
    if after:
        yield _piece(bodies, after.body, after.start - (len(text) - end), after.start)


def _piece(bodies: Sequence[str], body: int, start: int, end: int) -> PromptPiece:
    return PromptPiece(bodies[body][start:end], body, start, end)


def _merged(pieces: Iterator[PromptPiece]) -> list[PromptPiece]:
    """Pieces that go on in the same body become one, and so does template text."""
    merged: list[PromptPiece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if last and last.body == piece.body and last.end == piece.start:
            merged[-1] = replace(last, text=last.text + piece.text, end=piece.end)
        else:
            merged.append(piece)
    return merged
