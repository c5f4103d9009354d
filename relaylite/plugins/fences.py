"""Markdown texts that were cut inside a fence, as answers are when their tokens run out."""

from __future__ import annotations

from markdown_it import MarkdownIt

_PARSER = MarkdownIt("commonmark")


def with_closed_fence(source: str) -> str:
    """`source`, and the end of the fence in which it was cut, if it was: what follows it is not swallowed."""
    mark = "# end"
    tokens = _PARSER.parse(f"{source}\n\n{mark}\n")
    if not tokens or tokens[-1].type != "fence" or not tokens[-1].content.rstrip().endswith(mark):
        return source
    return f"{source.rstrip()}\n{tokens[-1].markup}"
