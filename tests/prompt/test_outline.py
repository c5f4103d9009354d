"""Outlines: bodies come apart at the words that a template looks for, and together again where it left them alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaylite.prompt.outline import PLACE, Landmarks, PromptPiece, join

SOURCE = "{% if '</think>' in content or \"/no_think\" in content %}{{ '<|im_end|></tools>' }}"
LANDMARKS = Landmarks(SOURCE)
WORDS = st.sampled_from(["a", "b c", " ", "\n", "</think>", "<think>", "/no_think", "<|im_end|>", "</tools>", "\0"])
BODIES = st.lists(WORDS, max_size=8).map("".join)


def fragments_of(text: str) -> list[str]:
    return [text[fragment.start : fragment.end] for fragment in LANDMARKS.outline(0, text)[1]]


@pytest.mark.parametrize(
    ("text", "form", "fragments"),
    [
        ("plain", "?", ["plain"]),
        ("", "", []),
        (" \n", " \n", []),
        ("hm\n</think>\n\nDone.\n", "?</think>?", ["hm\n", "\n\nDone.\n"]),
        ("</think>", "</think>", []),
        ("hm</think>\n", "?</think>\n", ["hm"]),
        (" </think>x", " </think>?", ["x"]),
        ("<think>x", "?", ["<think>x"]),  # this template does not look for it
        ("be brief /no_think", "?/no_think", ["be brief "]),
        ("<|im_end|></tools>", "?", ["<|im_end|></tools>"]),  # these would end something
        ("x\0y</think>", "?</think>", ["x\0y"]),
    ],
)
def test_outline(text: str, form: str, fragments: list[str]) -> None:
    assert LANDMARKS.outline(0, text)[0].replace(PLACE, "?") == form
    assert fragments_of(text) == fragments


def test_a_template_that_looks_for_nothing_leaves_bodies_in_one_piece() -> None:
    assert Landmarks("{{ content }}").outline(0, "a</think>b")[0] == PLACE


def test_a_body_full_of_landmarks_is_one_fragment() -> None:
    assert LANDMARKS.outline(0, "a</think>" * 100)[0] == PLACE


@given(BODIES)
def test_fragments_and_what_is_around_them_tile_the_body(text: str) -> None:
    form, fragments = LANDMARKS.outline(3, text)
    assert form.count(PLACE) == len(fragments)
    at = 0
    for fragment in fragments:
        assert fragment.body == 3
        assert fragment.low == at <= fragment.start < fragment.end <= len(text)
        at = fragment.end


@given(st.lists(BODIES, min_size=1, max_size=4))
def test_bodies_that_were_left_alone_come_back_in_one_piece(bodies: list[str]) -> None:
    outlines = [LANDMARKS.outline(i, text) for i, text in enumerate(bodies)]
    texts = "[" + "][".join(form for form, _ in outlines) + "]"
    fragments = [fragment for _, each in outlines for fragment in each]
    pieces = join(texts.split(PLACE), fragments, [(0, f.end - f.start) for f in fragments], bodies)
    assert "".join(piece.text for piece in pieces) == "[" + "][".join(bodies) + "]"
    found = {piece.body: piece.text for piece in pieces if piece.body is not None}
    assert found == {i: text for i, text in enumerate(bodies) if outlines[i][1]}


def test_what_a_template_puts_between_fragments_is_its_own() -> None:
    text = "<think>hm</think>\nDone."
    landmarks = Landmarks("'<think>' '</think>'")
    form, fragments = landmarks.outline(0, text)
    assert form == f"<think>{PLACE}</think>{PLACE}"
    pieces = join(["[<think>\n", "\n</think>\n", "]"], fragments, [(0, 2), (1, 6)], [text])
    assert pieces == (
        PromptPiece("[<think>\n"),
        PromptPiece("hm", 0, 7, 9),
        PromptPiece("\n</think>\n"),
        PromptPiece("Done.", 0, 18, 23),
        PromptPiece("]"),
    )


def test_trimmed_landmarks_go_back_to_their_body() -> None:
    text = " </think>Done.</think>\n"
    fragments = LANDMARKS.outline(0, text)[1]
    pieces = join(["[</think>", "</think>]"], fragments, [(0, 5)], [text])
    assert pieces == (PromptPiece("["), PromptPiece("</think>Done.</think>", 0, 1, 22), PromptPiece("]"))


def test_a_text_between_two_bodies_is_given_out_once() -> None:
    bodies = ["a</think>", "</think>b"]
    fragments = [LANDMARKS.outline(i, text)[1][0] for i, text in enumerate(bodies)]
    assert join(["", "</think>", ""], fragments, [(0, 1), (0, 1)], bodies) == (PromptPiece("a</think>", 0, 0, 9), PromptPiece("b", 1, 8, 9))


def test_a_body_that_comes_twice_comes_whole() -> None:
    text = "a</think>"
    fragments = LANDMARKS.outline(0, text)[1] * 2
    pieces = join(["", "</think>|", "</think>"], fragments, [(0, 1), (0, 1)], [text])
    assert pieces == (PromptPiece(text, 0, 0, 9), PromptPiece("|"), PromptPiece(text, 0, 0, 9))


def test_of_two_landmarks_the_longer_one_is_meant() -> None:
    assert Landmarks("'/no' '/no_think'").outline(0, "x /no_think")[0] == f"{PLACE}/no_think"


def test_what_is_left_of_a_dropped_fragment_stays_with_the_template() -> None:
    text = "hm</think>Done.</think> "
    fragments = LANDMARKS.outline(0, text)[1]
    pieces = join(["[</think>", "</think>]"], fragments[1:], [(0, 5)], [text])
    assert pieces == (PromptPiece("[</think>"), PromptPiece("Done.</think>", 0, 10, 23), PromptPiece("]"))
