"""Views of a text: what escapes mean, and which bytes stand in the text as they are."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relaylite.prompt.unescaped import View, views

TEXTS = st.text(st.sampled_from("ab \n\t\r\b\f\"'\\/é語😀\x00\x7f\x85\u2028uxU0dD8"), max_size=40)
ESCAPED = [json.dumps, lambda text: json.dumps(text, ensure_ascii=False), repr, lambda text: json.dumps(json.dumps(text))]


def check(view: View, text: bytes) -> None:
    end = place = 0
    for stretch in view.stretches:
        assert stretch.start >= end and stretch.place >= place and stretch.start < stretch.end
        end, place = stretch.end, stretch.place + stretch.end - stretch.start
        assert view.content[stretch.start : stretch.end] == text[stretch.place : place]
    assert end <= len(view.content) and place <= len(text)


@given(TEXTS, st.sampled_from(ESCAPED))
def test_some_view_of_an_escaped_text_says_the_text(text, escaped):
    assert any(text.encode() in view.content for view in views(escaped(text).encode()))


@given(TEXTS)
@example("\\\\\\")
@example("\\ud83d")
@example("\\ud83d\\ude00\\U0010ffff\\U00110000")
def test_stretches_stand_in_the_text_as_they_are(text):
    content = text.encode()
    first, *others = views(content)
    assert first.content == content
    for view in (first, *others):
        check(view, content)


@given(TEXTS, st.integers(0, 40), st.integers(0, 40))
def test_stretches_within_a_range_are_those_that_it_holds(text, start, end):
    for view in views(text.encode()):
        whole = [place for each in view.stretches for place in range(each.start, each.end)]
        assert [place for each in view.within(start, end) for place in range(each.start, each.end)] == [
            place for place in whole if start <= place < end
        ]


@pytest.mark.parametrize(
    ("text", "meaning"),
    [(r"a\nb", "a\nb"), (r"\u00e9", "é"), (r"\xe9", "é"), (r"\ud83d\ude00", "😀"), (r"\U0001f600", "😀"), (r"\\n", r"\n"), (r"\q", r"\q")],
)
def test_what_an_escape_means(text, meaning):
    assert list(views(text.encode()))[:2][-1].content == meaning.encode()
