"""`Earlier`: what a store had of a prompt before the prompt was seen: rows of earlier texts alone. For asking the same once more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relaylite.reuse.gaps import Gaps
from relaylite.reuse.overlaps import Overlap, OverlapIndex, window_for
from relaylite.reuse.plan import Kind, Quote, Segment
from relaylite.reuse.planner import Matcher
from relaylite.reuse.rows import Tokens, common_length


class Earlier:
    """Fulfils `planner.Matcher` with the rows that `source` has of `texts`: prompts with their answers, and where each answer starts."""

    def __init__(self, source: Matcher, texts: Iterable[tuple[Tokens, int]]) -> None:
        found = list(texts)
        self._source, self._texts, self._answers = source, [text for text, _ in found], [start for _, start in found]

    def prefix(self, tokens: Tokens, *, exact: bool) -> Segment | None:
        n = max((common_length(text, tokens) for text in self._texts), default=0)
        return self._source.prefix(tokens[:n], exact=exact) if n else None

    def spans(self, tokens: Tokens, start: int, min_length: int, quotes: Sequence[Quote] = ()) -> list[Segment]:
        """As `Matcher.spans`, but without `quotes`. Of what competes, answers come first where they were written, then the longest."""
        index = OverlapIndex(window_for(min_length))
        for key, text in enumerate(self._texts):
            index.add(key, text)
        overlaps, gaps = [each.moved(start) for each in index.find(tokens[start:], min_length)], Gaps(start, len(tokens))
        answers = [part for each in overlaps if (part := self._answer_in(each)).n > 0]
        found = gaps.fill(answers, min_length) + gaps.fill(overlaps, min_length)
        segments = [self._segment(overlap) for overlap in sorted(found, key=lambda overlap: overlap.start)]
        return [segment for segment in segments if segment is not None and len(segment) >= min_length]

    def _answer_in(self, overlap: Overlap) -> Overlap:
        """The part that is of the text's answer; its length is not above 0 if there is none."""
        return overlap.within(overlap.start + self._answers[overlap.key] - overlap.offset, overlap.end)

    def _segment(self, overlap: Overlap) -> Segment | None:
        """As much of the overlap, from its start on, as the source still has."""
        end = overlap.offset + overlap.n
        held = self._source.prefix(self._texts[overlap.key][:end], exact=False)
        if held is None or held.end <= overlap.offset:
            return None
        n = held.end - overlap.offset
        return Segment(overlap.start, overlap.start + n, Kind.SPAN, held.rows, held.offset + overlap.offset)
