"""Text for a terminal: what a terminal would obey is shown or left out, what people read stays. One rule for command line and app."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaylite.terminal_text import fit_for_terminal, one_line

DIRECTIONS = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("copy\x1b]52;c;ZXZpbA==\x07", "copy␛]52;c;ZXZpbA==␇"),
        ("up\x1b[10A\x1b[2Jclear\x1bcreset", "up␛[10A␛[2Jclear␛creset"),
        ("a\x00b\x08c\x7fd", "a␀b␈c␡d"),
        ("\x9b2J\x9d0;title\x9c \x90dcs", "\ufffd2J\ufffd0;title\ufffd \ufffddcs"),
        ("over\rwrite\r\n", "overwrite\n"),
        ("page\x0cdown\x0bnext\x85end", "page\ndown\nnext\nend"),
    ],
)
def test_control_characters_are_seen_and_not_obeyed(text: str, shown: str) -> None:
    assert fit_for_terminal(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\ufeffbyte order", "byte order"),
        ("zero\ufeffwidth", "zerowidth"),
        ("flag 🏴\U000e0067\U000e0062\U000e007f", "flag 🏴"),
        ("hidden\U000e0001\U000e0041 words", "hidden words"),
        ("one\u2028two\u2029three", "one\ntwo\nthree"),
        ("half \ud800 a pair \udfff", "half \ufffd a pair \ufffd"),
    ],
)
def test_what_the_command_line_and_the_app_once_treated_differently(text: str, shown: str) -> None:
    assert fit_for_terminal(text) == shown


@pytest.mark.parametrize("text", ["abc\u202edcba\u202c", "\u2066x\u2069", "\u200fy\u200e", "\u061cz"])
def test_marks_that_turn_the_direction_of_writing_are_left_out(text: str) -> None:
    assert fit_for_terminal(text) == "".join(char for char in text if char not in DIRECTIONS)


@pytest.mark.parametrize(
    "text",
    [
        "tab\tline\nümläut 漢字 שלום عربى हिन्दी",
        "family 👨‍👩‍👧‍👦 flag 🇩🇪 skin 👍🏽 heart ❤️ keycap 1️⃣",
        "e\u0301 n\u0303 \u0e01\u0e33",
        "می\u200cخواهم क्\u200dष 葛\U000e0100",
        "[/bold] <b>html</b> ␛ is a letter too",
    ],
)
def test_what_people_read_stays(text: str) -> None:
    assert fit_for_terminal(text) == text


@given(st.text(st.characters()))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    shown = fit_for_terminal(text)
    assert all(char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs") for char in shown)
    assert not set(shown) & DIRECTIONS
    assert fit_for_terminal(shown) == shown
    assert all(char in text or char in "\n\ufffd\u2421" or "\u2400" <= char < "\u2420" for char in shown), "something was made up"


@given(st.text(), st.integers(0, 50))
def test_text_that_comes_in_pieces_is_made_fit_alike(text: str, at: int) -> None:
    assert fit_for_terminal(text[:at]) + fit_for_terminal(text[at:]) == fit_for_terminal(text)


@given(st.text())
def test_one_line_is_one_and_no_longer_than_asked_for(text: str) -> None:
    assert "\n" not in one_line(text) and len(one_line(text, 20)) <= 20
    assert fit_for_terminal(one_line(text)) == one_line(text)
