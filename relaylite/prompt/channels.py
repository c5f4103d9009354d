"""`said`: what of an answer is meant for its reader, where a model writes in channels, as gpt-oss does: thoughts, calls, the final text.

Its template wants the final text alone, and refuses an answer with the marks of channels in it. Text only; it knows no tokens.
"""

from __future__ import annotations

import re

_FINAL = "<|channel|>final<|message|>"
_BODY = "<|message|>"
_NEXT = re.compile(r"<\|(?:start|channel|end|return|call)\|>")


def uses_channels(template: str) -> bool:
    """Whether the source of a chat template knows channels."""
    return _FINAL in template


def said(text: str) -> tuple[int, int]:
    """The characters `[start, end)` of an answer in its final channel. Without one (it was cut), those in its last channel."""
    start = next((at + len(mark) for mark in (_FINAL, _BODY) if (at := text.rfind(mark)) >= 0), None)
    if start is None:
        opened = _NEXT.search(text)  # a header that was cut before its end says nothing
        return (0, opened.start()) if opened else (0, len(text))
    following = _NEXT.search(text, start)
    return start, following.start() if following else len(text)
