"""What may be shown of an answer: whole characters, nothing of a stop string, and nothing that later turns out to belong to one."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from relaylite.engine.text_stream import TextStream

TEXT = st.text("ab#é€🐈", max_size=24)
STOPS = st.lists(st.text("ab#é€🐈", min_size=1, max_size=4), max_size=3).map(tuple)
CUTS = st.lists(st.integers(0, 80), max_size=30)


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` cut anywhere, some pieces empty as those of control tokens are."""
    ends = sorted(min(cut, len(data)) for cut in cuts)
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


def expected(pieces: list[bytes], stops: tuple[str, ...]) -> tuple[str, int, bool]:
    """The text up to the first stop string, of the pieces fed until then those that lie before it, and whether there was one."""
    for n in range(1, len(pieces) + 1):
        text = b"".join(pieces[:n]).decode(errors="ignore")
        found = [text.find(stop) for stop in stops if stop in text]
        if found:
            cut = len(text[: min(found)].encode())
            kept = [i for i in range(n) if len(b"".join(pieces[: i + 1])) <= cut]
            return text[: min(found)], len(kept), True
    return b"".join(pieces).decode(errors="ignore"), len(pieces), False


@given(TEXT, STOPS, CUTS)
@example("a€b", ("€",), [2])  # the first byte of the stop string comes in a token of its own
@example("ab#a", ("b#b", "#a"), [1, 2, 3])
def test_text_ends_before_the_first_stop_string(text: str, stops: tuple[str, ...], cuts: list[int]) -> None:
    pieces = pieces_of(text.encode(), cuts)
    wanted, n_kept, is_stopped = expected(pieces, stops)
    stream = TextStream(stops)
    shown = ""
    for piece in pieces:
        shown += stream.feed(piece)
        assert wanted.startswith(shown), "something was shown that had to be held back"
        if stream.is_stopped:
            break
    shown += stream.finish()
    assert (shown, stream.n_kept, stream.is_stopped) == (wanted, n_kept, is_stopped)
    if is_stopped:
        assert stream.feed(b"more") == "" and stream.finish() == ""


@given(TEXT, CUTS)
def test_without_stop_strings_nothing_whole_is_held_back(text: str, cuts: list[int]) -> None:
    stream, fed = TextStream(), b""
    shown = ""
    for piece in pieces_of(text.encode(), cuts):
        fed += piece
        shown += stream.feed(piece)
        assert shown == fed.decode(errors="ignore")


@given(st.binary(max_size=20), CUTS)
def test_bytes_that_are_no_text_are_marked_and_never_fail(data: bytes, cuts: list[int]) -> None:
    stream = TextStream(("#",))
    shown = "".join(stream.feed(piece) for piece in pieces_of(data, cuts)) + stream.finish()
    whole = data.decode(errors="replace")
    assert whole.split("#")[0].startswith(shown.rstrip("\ufffd")) and "#" not in shown


def test_an_unfinished_character_is_dropped_at_the_end() -> None:
    stream = TextStream()
    assert [stream.feed(b"a"), stream.feed("€".encode()[:2]), stream.finish()] == ["a", "", ""]
    assert stream.n_kept == 2


def test_what_only_looked_like_a_stop_string_is_shown() -> None:
    stream = TextStream(("#stop",))
    assert [stream.feed(b"a#st"), stream.feed(b"ay"), stream.feed(b"#"), stream.finish()] == ["a", "#stay", "", "#"]
