"""Known answers in texts: what is found, how it is cut, and that nothing is said otherwise."""

from __future__ import annotations

import json
import random
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relaylite.errors import UsageError
from relaylite.prompt.known_answers import KnownAnswers, Split
from relaylite.prompt.messages import Answer, Text

RNG = random.Random(7)
WORDS = ["".join(RNG.choices("abcdefghijklmnopqrstuvwxyz", k=RNG.randint(2, 9))) for _ in range(400)]
ESCAPES = [str, json.dumps, lambda text: json.dumps(text, ensure_ascii=False), repr, lambda text: json.dumps(json.dumps(text))]


class Pieces:
    """Ids of whatever pieces are asked for."""

    def __init__(self) -> None:
        self.ids: dict[bytes, int] = {}
        self.pieces: list[bytes] = []

    def tokens(self, pieces: list[bytes]) -> tuple[int, ...]:
        for piece in pieces:
            if piece not in self.ids:
                self.ids[piece] = len(self.pieces)
                self.pieces.append(piece)
        return tuple(self.ids[piece] for piece in pieces)

    def bytes_of(self, part: Text | Answer) -> bytes:
        return part.text.encode() if isinstance(part, Text) else b"".join(self.pieces[token] for token in part.tokens)


PIECES = Pieces()


def words(n: int, seed: int) -> list[bytes]:
    """An answer of about `n` tokens, with sentences, lists and quotation marks."""
    rng = random.Random(seed)
    pieces = [rng.choice(WORDS).encode()]
    while len(pieces) < n:
        pieces.append(f" {rng.choice(WORDS)}".encode())
        if rng.random() < 0.12:
            pieces.append(rng.choice([b".\n\n", b".", b",", b":\n-", b' "', "é".encode(), "語".encode()]))
    return pieces


def known(*answers: list[bytes]) -> KnownAnswers:
    found = KnownAnswers()
    for i, pieces in enumerate(answers):
        found.add(PIECES.tokens(pieces), pieces, f"r{i}")
    return found


def said(pieces: list[bytes]) -> str:
    return b"".join(pieces).decode()


def check(split: Split, text: str) -> Split:
    assert b"".join(map(PIECES.bytes_of, split.parts)) == text.encode()
    for part in split.parts:
        PIECES.bytes_of(part).decode()
        if isinstance(part, Answer) and part.whole:
            assert part.whole[part.offset : part.offset + len(part.tokens)] == part.tokens
    n_spliced = sum(len(part.tokens) for part in split.parts if isinstance(part, Answer))
    assert n_spliced == sum(each.n_found for each in split.located)
    assert all(min(each.n_found, each.n_before, each.n_behind, each.n_changed) >= 0 for each in split.located)
    return split


def spliced(split: Split) -> list[tuple[str, int]]:
    return [(each.source, each.n_found) for each in split.located]


# laws

SNIPPETS = st.sampled_from(["the ", "plan", " is\n", "é", "語", "😀", "\\", '"', "\t", "  ", "x", "'", "\x7f", "12", "\r\n", "/"])


@st.composite
def pieces_of(draw) -> list[bytes]:
    """The bytes of a text, cut anywhere, with some tokens that spell nothing."""
    content = "".join(draw(st.lists(SNIPPETS, min_size=8, max_size=60))).encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(content)), min_size=5, max_size=40)))
    return [content[start:end] for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)]


@settings(deadline=None)
@given(st.lists(pieces_of(), min_size=1, max_size=3), st.data())
def test_parts_say_what_the_text_says(answers, data):
    some = known(*answers)
    text = ""
    for _ in range(data.draw(st.integers(1, 4))):
        whole = b"".join(data.draw(st.sampled_from(answers))).decode()
        start, end = sorted((data.draw(st.integers(0, len(whole))), data.draw(st.integers(0, len(whole)))))
        text += data.draw(st.sampled_from(ESCAPES))(whole[start:end]) + data.draw(SNIPPETS)
    check(some.split(text), text)


@settings(deadline=None)
@given(pieces_of(), st.text(max_size=20), st.text(max_size=20))
def test_a_verbatim_answer_is_found_whole_between_blanks(pieces, before, behind):
    answer = [*words(20, 1), *(piece for piece in pieces if piece)]
    if b"".join(answer[-1:])[:1] not in b"abcdefghijklmnopqrstuvwxyz \n\t":
        answer.append(b" end")
    text = f"{before}\n{said(answer)}\n{behind}"
    split = check(known(answer).split(text), text)
    assert Answer(PIECES.tokens(answer), "r0") in split.parts


# the ways in which frameworks pass an answer on


A, B, C = words(200, 11), words(180, 12), words(220, 13)


def test_a_stripped_answer_loses_no_more_than_its_ends():
    answer = [b" ", *A, b"\n\n"]
    text = f"Context:\n{said(answer).strip()}\nGo on."
    assert spliced(check(known(answer).split(text), text)) == [("r0", len(answer) - 2)]


def test_a_start_or_an_end_that_was_cut_off_is_told_from_a_change():
    text = "Result: " + said(A[40:150])
    [located] = check(known(A).split(text), text).located
    assert (located.n_found, located.n_before, located.n_behind, located.n_changed) == (110, 40, len(A) - 150, 0)


def test_several_answers_in_one_message_are_all_found_in_order():
    text = "\n----------\n".join(map(said, (C, A, B, A)))
    split = check(known(A, B, C).split(text, kind="file", source="x"), text)
    assert spliced(split) == [("r2", len(C)), ("r0", len(A)), ("r1", len(B)), ("r0", len(A))]
    assert split.parts[1] == Text("\n----------\n", "file", "x")


def test_lines_whose_trailing_blanks_were_taken_off_are_found_however_short():
    answer = [piece for i in range(40) for piece in (f"{i}. ".encode(), *words(4, i)[:4], b"  ", b"\n")]
    answer = [*words(30, 3), b"\n", *answer, *words(30, 4)]
    text = "\n".join(line.rstrip() for line in said(answer).split("\n"))
    [located] = check(known(answer).split(text), text).located
    assert located.n_found >= 0.75 * len(answer)
    assert located.n_changed == len(answer) - located.n_found


def test_an_answer_cut_in_the_middle_is_one_quotation_with_a_change():
    text = said(A[:90]) + "\n..._This content has been truncated_...\n" + said(A[130:])
    [located] = check(known(A).split(text), text).located
    assert (located.n_found, located.n_changed) == (len(A) - 40, 40)


@pytest.mark.parametrize("escaped", ESCAPES[1:])
def test_of_an_escaped_answer_all_but_the_tokens_at_escapes_are_found(escaped):
    text = f'{{"result": {escaped(said(A))}, "next": {escaped(said(B))}}}'
    split = check(known(A, B, C).split(text), text)
    assert [source for source, _ in spliced(split)] == ["r0", "r1"]
    for (_, n_found), answer in zip(spliced(split), (A, B), strict=True):
        assert n_found >= 0.8 * len(answer)


def test_an_answer_that_holds_backslashes_is_found_as_it_stands():
    answer = [*A[:30], rb"\n", rb" C:\temp", rb" \nabla", *A[30:60]]
    text = f"It said: {said(answer)} \n"
    assert spliced(check(known(answer).split(text), text)) == [("r0", len(answer))]


# where runs end


def test_a_run_ends_between_words_and_characters():
    answer = [*words(30, 5), b" uni", b"ver", b"sity", "語".encode()[:2], "語".encode()[2:], b" end"]
    text = said(answer[:30]) + " universal"
    assert spliced(check(known(answer).split(text), text)) == [("r0", 30)]
    text = said(answer[:-3]) + "誛"  # shares two bytes with the character that the answer goes on with
    assert "誛".encode()[:2] == "語".encode()[:2]
    assert spliced(check(known(answer).split(text), text)) == [("r0", 33)]


def test_a_token_that_spells_nothing_is_not_spliced():
    answer = [*A[:20], b"", b"", *A[20:40], b""]
    text = said(answer)
    split = check(known(answer).split(text), text)
    assert [len(part.tokens) for part in split.parts if isinstance(part, Answer)] == [20, 20]


def test_a_short_phrase_is_not_an_answer():
    answer = words(80, 6)
    text = "It says" + said(answer[10:14]) + "."
    assert known(answer).split(text) == Split((Text(text),))


def test_half_a_character_is_refused():
    with pytest.raises(UsageError, match="half a character"):
        known(A).split(said(A) + "\ud800")


# memory


def test_the_newest_of_equal_answers_gives_its_source_and_the_longest_run_wins():
    some = KnownAnswers()
    for source, pieces in (("old", A), ("new", A), ("newest", A[:50])):
        some.add(PIECES.tokens(pieces), pieces, source)
    assert len(some) == 2
    assert spliced(some.split(said(A))) == [("new", len(A))]
    assert spliced(some.split(said(A[:50]))) == [("newest", 50)]


def test_answers_of_another_scope_are_not_found():
    some = KnownAnswers()
    some.add(PIECES.tokens(A), A, "r0", scope="a")
    some.add(PIECES.tokens(B), B, "r1", scope="b")
    text = said(A) + "\n" + said(B)
    assert spliced(some.split(text, scope="a")) == [("r0", len(A))]
    assert spliced(some.split(text, scope="b")) == [("r1", len(B))]
    assert spliced(some.split(text)) == []


def test_the_least_recently_seen_goes_within_bytes_and_count():
    sizes = [len(said(each).encode()) for each in (A, B, C)]
    some = KnownAnswers(max_bytes=sum(sizes) - 1)
    some.add(PIECES.tokens(A), A, "r0", scope="a")
    some.add(PIECES.tokens(B), B, "r1")
    assert some.split(said(A), scope="a").located
    some.add(PIECES.tokens(C), C, "r2")
    assert some.n_bytes == sizes[0] + sizes[2]
    assert not some.split(said(B)).located and some.split(said(C)).located and some.split(said(A), scope="a").located
    few = KnownAnswers(max_answers=3)
    for i in range(10):
        few.add(PIECES.tokens(words(40, i)), words(40, i), str(i))
    assert len(few) == 3 and few.split(said(words(40, 9))).located and not few.split(said(words(40, 5))).located


def test_answers_of_an_earlier_process_are_learnt_the_last_ones_at_least():
    some = KnownAnswers()
    some.learn([(PIECES.tokens(words(30, i)), f"r{i}") for i in range(600)], PIECES.pieces.__getitem__, scope="a")
    assert len(some) == 512
    assert spliced(some.split(said(words(30, 599)), scope="a")) == [("r599", len(words(30, 599)))]


def test_long_texts_are_searched_in_blocks_without_a_seam():
    text = "\n".join(["filler and more of it"] * 4000)
    for at in (65530, 65536, 65536 - 600):
        full = text[:at] + "\n" + said(A) + "\n" + text[at:]
        assert spliced(check(known(A).split(full), full)) == [("r0", len(A))]


def test_a_text_that_repeats_itself_takes_no_minutes():
    blanks = [b"-" * 16] * 400
    some = known(blanks, [b" " * 8] * 400, *(words(50, i) for i in range(20)))
    text = "-" * 40_000 + " " * 40_000
    started = time.thread_time()
    check(some.split(text), text)
    assert time.thread_time() - started < 5


def test_several_threads_share_it():
    some = KnownAnswers(max_answers=8)
    problems = []

    def work(seed: int) -> None:
        try:
            for i in range(30):
                pieces = words(60, seed * 100 + i)
                some.add(PIECES.tokens(pieces), pieces, "r")
                text = said(pieces) + said(A)
                check(some.split(text), text)
        except Exception as problem:  # shown by the assertion
            problems.append(problem)

    for seed in range(3):  # the ids are made before
        for i in range(30):
            PIECES.tokens(words(60, seed * 100 + i))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
