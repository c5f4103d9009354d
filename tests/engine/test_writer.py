"""An answer as it is written: what is shown, kept and relayed of it, and why it ends."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest
from support.live_engine import LiveEngine, Taken, opened, plan_of
from support.parrot import write_parrot

from relaylite.engine.interface import Delta
from relaylite.engine.writer import Writer
from relaylite.errors import Cancelled
from relaylite.reuse.plan import Kind
from relaylite.reuse.policies import FULL, PREFIX
from relaylite.sampling import Sampling

END, ALSO_END = 2, 0  # <|im_end|>, the EOS of the tiny vocabulary, and <|endoftext|>, which only its name tells
PROMPT = [90, 91, 92]  # xyz

Parrot = Callable[..., AbstractContextManager[LiveEngine]]


@pytest.fixture
def parrot(tmp_path: Path) -> Parrot:
    """A model that answers PROMPT with these tokens."""

    @contextmanager
    def open_it(*answer: int) -> Iterator[LiveEngine]:
        with opened(write_parrot(tmp_path / "parrot.gguf", [PROMPT[-1], *answer]), n_ctx=256) as live:
            yield live

    return open_it


def ids(live: LiveEngine, *texts: str) -> list[int]:
    """One token of each text."""
    found = [live.engine.tokenizer.tokenize(text, parse_special=False) for text in texts]
    assert all(len(tokens) == 1 for tokens in found)
    return [tokens[0] for tokens in found]


def byte_ids(live: LiveEngine, text: str) -> list[int]:
    """A token of each byte of a character that is no token."""
    found = live.engine.tokenizer.tokenize(text, parse_special=False)
    assert len(found) == len(text.encode()) > 1
    return found


@dataclass
class Answer:
    """What was written to PROMPT; it has ended, unless a test wrote only some of it."""

    live: LiveEngine
    writer: Writer
    deltas: list[Delta]

    @property
    def finish_reason(self) -> str:
        return self.writer.finish_reason

    @property
    def shown(self) -> list[str]:
        return [delta.text for delta in self.deltas]

    @property
    def relayed(self) -> tuple[list[int], list[int]]:
        """Ids that go to the next agent, and those whose rows there are, behind the prompt."""
        return list(self.writer.tokens), self.live.engine.harvest("").tokens.tolist()[len(PROMPT) :]


def answer(live: LiveEngine, n: int | None = None, **sampling: object) -> Answer:
    """The whole answer, or its first `n` tokens."""
    live.prefill(plan_of(FULL, PROMPT))
    writer = live.engine.generate(Sampling(**{"max_tokens": 20, **sampling}))  # type: ignore[arg-type]
    return Answer(live, writer, list(islice(writer, n)))


# ends of generation


@pytest.mark.parametrize("end", [END, ALSO_END])
def test_every_end_of_generation_token_ends_and_is_never_shown_or_relayed(end: int, parrot: Parrot, tiny: LiveEngine) -> None:
    a, b = ids(tiny, "a", "b")
    with parrot(a, b, end, a) as live:
        said = answer(live)
        assert said.shown == ["a", "b", ""]
        assert said.finish_reason == "stop"
        assert said.relayed == ([a, b], [a, b])


def test_an_answer_that_ends_at_once_is_empty(parrot: Parrot) -> None:
    with parrot(END) as live:
        said = answer(live)
        assert said.shown == [""]
        assert (said.finish_reason, said.relayed) == ("stop", ([], []))


# stop strings


def test_a_stop_string_over_two_tokens_is_held_back_whole(parrot: Parrot, tiny: LiveEngine) -> None:
    a, hash_sign, b, c = ids(tiny, "a", "#", "b", "c")
    with parrot(a, hash_sign, b, c) as live:
        said = answer(live, stop=("#b",))
        assert said.shown == ["a", "", ""]
        assert said.finish_reason == "stop"
        assert said.relayed == ([a], [a])


def test_what_only_began_like_a_stop_string_is_shown_and_kept(parrot: Parrot, tiny: LiveEngine) -> None:
    a, hash_sign, b, c = ids(tiny, "a", "#", "b", "c")
    with parrot(a, hash_sign, b, c, END) as live:
        said = answer(live, stop=("#c",))
        assert said.shown == ["a", "", "#b", "c", ""]
        assert said.relayed == ([a, hash_sign, b, c], [a, hash_sign, b, c])


def test_a_stop_string_that_never_comes_whole_is_shown_at_the_end(parrot: Parrot, tiny: LiveEngine) -> None:
    a, hash_sign = ids(tiny, "a", "#")
    with parrot(a, hash_sign, END) as live:
        said = answer(live, stop=("#b",))
        assert said.shown == ["a", "", "#"]
        assert said.relayed == ([a, hash_sign], [a, hash_sign])


def test_a_token_that_holds_more_than_the_stop_string_is_not_relayed(parrot: Parrot, tiny: LiveEngine) -> None:
    a, the, b = ids(tiny, "a", " the", "b")
    with parrot(a, the, b) as live:
        said = answer(live, stop=("h",))
        assert said.shown == ["a", " t"]
        assert said.relayed == ([a], [a])


def test_the_first_bytes_of_a_stop_string_are_not_relayed(parrot: Parrot, tiny: LiveEngine) -> None:
    [a], euro = ids(tiny, "a"), byte_ids(tiny, "€")
    with parrot(a, *euro, a + 1) as live:
        said = answer(live, stop=("€",))
        assert said.shown == ["a", "", "", ""]
        assert said.relayed == ([a], [a])


def test_the_prompt_is_never_searched_for_stop_strings(parrot: Parrot, tiny: LiveEngine) -> None:
    a, b = ids(tiny, "a", "b")
    with parrot(a, b, END) as live:
        assert "".join(answer(live, stop=("za",)).shown) == "ab"


@pytest.mark.parametrize(("stop", "ended_by"), [(("#b", "b", "zz"), "#b"), (("zz", "b", "#b"), "#b"), (("#b", "#"), "#"), (("zz",), "")])
def test_the_stop_string_that_came_first_is_named(stop: tuple[str, ...], ended_by: str, parrot: Parrot, tiny: LiveEngine) -> None:
    a, hash_sign, b = ids(tiny, "a", "#", "b")
    with parrot(a, hash_sign, b, END) as live:
        said = answer(live, 1, stop=stop)
        assert said.writer.stop == ""
        list(said.writer)
        assert (said.writer.stop, said.finish_reason) == (ended_by, "stop")


# characters over several tokens


def test_a_character_over_three_tokens_is_shown_once_it_is_whole(parrot: Parrot, tiny: LiveEngine) -> None:
    euro = byte_ids(tiny, "€")
    with parrot(*euro, END) as live:
        assert answer(live).shown == ["", "", "€", ""]


def test_a_character_cut_by_max_tokens_is_not_shown_and_not_lost(parrot: Parrot, tiny: LiveEngine) -> None:
    """The next agent gets its bytes by their ids."""
    [a], euro = ids(tiny, "a"), byte_ids(tiny, "€")
    with parrot(a, *euro, END) as live:
        said = answer(live, max_tokens=3)
        assert said.shown == ["a", "", ""]
        assert said.finish_reason == "length"
        assert said.relayed == ([a, *euro[:2]], [a, euro[0]])


# how many tokens


def test_no_tokens_are_written_if_none_are_wanted(parrot: Parrot, tiny: LiveEngine) -> None:
    with parrot(*ids(tiny, "a", "b")) as live:
        said = answer(live, max_tokens=0)
        assert said.deltas == []
        assert (said.finish_reason, said.relayed) == ("length", ([], []))


def test_one_token_has_no_row_yet(parrot: Parrot, tiny: LiveEngine) -> None:
    a, b = ids(tiny, "a", "b")
    with parrot(a, b) as live:
        said = answer(live, max_tokens=1)
        assert [delta.token for delta in said.deltas] == [a]
        assert (said.finish_reason, said.relayed) == ("length", ([a], []))


def test_without_a_limit_the_context_is_filled_to_its_last_slot(parrot: Parrot, tiny: LiveEngine) -> None:
    a, b = ids(tiny, "a", "b")
    with parrot(a, b, a) as live:
        said = answer(live, max_tokens=-1)
        assert len(said.deltas) == live.engine.info.n_ctx - len(PROMPT) and said.finish_reason == "length"
        assert len(live.engine.harvest("")) == live.engine.info.n_ctx - 1
        assert answer(live, max_tokens=2).shown == ["a", "b"]


def test_a_held_back_start_of_a_stop_string_is_shown_with_the_last_token(parrot: Parrot, tiny: LiveEngine) -> None:
    a, hash_sign = ids(tiny, "a", "#")
    with parrot(a, hash_sign, a + 1) as live:
        assert answer(live, max_tokens=2, stop=("#b",)).shown == ["a", "#"]


# ending early


def test_an_answer_that_is_not_read_on_is_kept_as_far_as_it_came(parrot: Parrot, tiny: LiveEngine) -> None:
    a, b, c = ids(tiny, "a", "b", "c")
    with parrot(a, b, c, END) as live:
        said = answer(live, 2)
        said.writer.close()
        assert (said.shown, said.finish_reason) == (["a", "b"], "cancelled")
        assert said.relayed == ([a, b], [a])
        assert list(said.writer) == []


def test_what_was_written_is_known_after_every_token(parrot: Parrot, tiny: LiveEngine) -> None:
    a, b, c = ids(tiny, "a", "b", "c")
    with parrot(a, b, c, END) as live:
        said = answer(live, 0)
        for kept in ([a], [a, b], [a, b, c]):
            next(said.writer)
            assert (said.finish_reason, said.relayed) == ("cancelled", (kept, kept[:-1]))
        next(said.writer)
        assert (said.finish_reason, said.relayed) == ("stop", ([a, b, c], [a, b, c]))


def test_a_cancelled_answer_is_kept_and_the_next_turn_goes_on_from_it(parrot: Parrot, tiny: LiveEngine) -> None:
    a, b, c = ids(tiny, "a", "b", "c")
    with parrot(a, b, c, END) as live:
        said = answer(live, 2)
        live.engine.cancel()
        with pytest.raises(Cancelled):
            next(said.writer)
        assert (said.shown, said.finish_reason) == (["a", "b"], "cancelled")
        assert said.relayed == ([a, b], [a])
        live.prefill(plan_of(PREFIX, Taken(live.engine.harvest(""), kind=Kind.PREFIX), [b]))
        assert [delta.text for delta in live.engine.generate(Sampling())] == ["c", ""]


def test_what_an_answer_left_unread_cannot_reach_the_next_one(parrot: Parrot, tiny: LiveEngine) -> None:
    """Nor when it is dropped only then."""
    a, b, c = ids(tiny, "a", "b", "c")
    with parrot(a, b, c, END) as live:
        dropped = answer(live, 1)
        live.prefill(plan_of(FULL, [*PROMPT, a, b]))
        del dropped
        gc.collect()
        assert live.engine.harvest("").tokens.tolist() == [*PROMPT, a, b]
