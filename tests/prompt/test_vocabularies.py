"""Prompts in the real vocabulary of the small model, and in a SentencePiece vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fakes import ByteTokenizer
from support.prompts import EVIL, build, check, say
from support.tiny_models import write_model

from relaylite.chain.transcript import FORMAT, VERSION, from_dict, tokenizer_fingerprint
from relaylite.engine import llama
from relaylite.errors import UsageError
from relaylite.prompt.builder import PromptBuilder
from relaylite.prompt.messages import Answer
from relaylite.prompt.template import CHATML, ChatTemplate
from relaylite.prompt.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def smollm2(default_model_path: Path) -> Iterator[llama.Model]:
    yield from opened(default_model_path)


@pytest.fixture(scope="module")
def sentencepiece(tmp_path_factory: pytest.TempPathFactory) -> Iterator[llama.Model]:
    path = tmp_path_factory.mktemp("models") / "spm.gguf"
    write_model(path, "llama", vocab="spm")
    yield from opened(path)


def opened(path: Path) -> Iterator[llama.Model]:
    llama.start()
    model = llama.Model(path, n_gpu_layers=0, use_extra_buffers=False)
    yield model
    model.close()


TEXTS = [EVIL, ".", "\n\nNext", " x", "a\0b", "naïve 日本語 🙂", " \n\t ", "x" * 1000, "<s></s><unk>", "\n", " "]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("vocabulary", ["smollm2", "sentencepiece"])
def test_parts_say_what_was_said_in_real_vocabularies(vocabulary: str, text: str, request: pytest.FixtureRequest) -> None:
    vocab = request.getfixturevalue(vocabulary).vocab
    made = build(CHATML, say("user", "task", text, answer_in(vocab, text), text), tokenizer=vocab, bos_text=vocab.bos_text)
    check(made, vocab)
    body = [part for part in made.parts if part.kind != "template"]
    assert "".join(part.text for part in body) == "task" + 3 * text
    assert all(vocab.piece(token) for part in body for token in part.tokens), "a control token in a body"
    assert [vocab.bos] * (vocab.bos is not None) == [int(token) for token in made.tokens if token == vocab.bos]


STRANGE = [-1, -(2**31), 2**31 - 1, 2**31, 2**32, 2**64, 1 << 20_000]


@pytest.mark.parametrize("vocabulary", ["smollm2", "sentencepiece"])
def test_ids_that_a_vocabulary_lacks_do_not_reach_llama(vocabulary: str, request: pytest.FixtureRequest) -> None:
    """It throws for them, and an exception of C++ that leaves it ends the process."""
    vocab = request.getfixturevalue(vocabulary).vocab
    for token in [vocab.n_tokens, *STRANGE]:
        with pytest.raises(UsageError, match="there is no token") as caught:
            vocab.piece(token)
        assert "\n" not in str(caught.value)
        assert not vocab.is_eog(token)
        assert vocab._text_of(token) == ""
    assert vocab.piece(vocab.n_tokens - 1) is not None


@pytest.mark.parametrize("vocabulary", ["smollm2", "sentencepiece"])
def test_ids_out_of_a_file_are_checked_once_against_the_vocabulary(vocabulary: str, request: pytest.FixtureRequest) -> None:
    vocab = request.getfixturevalue(vocabulary).vocab
    answer = {"agent": "plan", "text": "x", "finish_reason": "stop", "metrics": {}, "tokens": []}
    data = {"format": FORMAT, "version": VERSION, "tokenizer": tokenizer_fingerprint(vocab), "policy": "full", "dropped_rounds": 0}
    agents = [{"name": "plan", "instructions": "", "reads": "all", "sampling": {}, "color": ""}]
    for token in [vocab.n_tokens, *STRANGE]:
        turns = [{**answer, "tokens": [token]}]
        with pytest.raises(UsageError, match="answer 1 of round 1: there is no token"):
            from_dict({**data, "agents": agents, "rounds": [{"task": "t", "files": [], "turns": turns}]}, vocab)


def answer_in(vocab: Tokenizer, text: str) -> Answer:
    return Answer(tuple(vocab.tokenize(text, parse_special=False)), "plan")


def test_the_small_model_gets_its_own_template_as_control_tokens(smollm2: llama.Model) -> None:
    vocab = smollm2.vocab
    template = ChatTemplate(smollm2.chat_template or "", bos_text=vocab.bos_text, eos_text=vocab.eos_text)
    messages = [say("system", "You plan."), say("user", "Sort a list.")]
    made = PromptBuilder(template, vocab).build(messages)
    check(made, vocab)
    whole = template.render([("system", "You plan."), ("user", "Sort a list.")])
    assert "".join(part.text for part in made.parts) == whole
    assert made.tokens.tolist() == vocab.tokenize(whole, parse_special=True)


def test_a_megabyte_on_one_line_is_spelt_whole(smollm2: llama.Model, sentencepiece: llama.Model) -> None:
    for vocab in (smollm2.vocab, sentencepiece.vocab):
        for text in ("ab " * 70_000, "\n" * 100_000, "x1" * 50_000):
            made = build("{{ messages[0].content }}", say("user", text), tokenizer=vocab)
            assert b"".join(map(vocab.piece, made.tokens.tolist())).decode() == text


def test_long_texts_come_to_the_tokenizer_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = ByteTokenizer()
    lengths: list[int] = []
    real = tokenizer.tokenize
    monkeypatch.setattr(
        tokenizer, "tokenize", lambda text, *, parse_special: lengths.append(len(text)) or real(text, parse_special=parse_special)
    )
    for text in ("x" * 100_000, "ab " * 40_000):
        made = build("{{ messages[0].content }}", say("user", text), tokenizer=tokenizer)
        assert bytes(made.tokens.tolist()).decode() == text
    assert max(lengths) <= 2**14


def test_long_texts_are_cut_where_no_token_is(smollm2: llama.Model) -> None:
    text = "".join(f"def f{i}(x):\n    return x ** {i}  # the {i}th power\n\n" for i in range(1000))
    made = build("{{ messages[0].content }}", say("user", text), tokenizer=smollm2.vocab)
    assert made.tokens.tolist() == smollm2.vocab.tokenize(text, parse_special=False)
