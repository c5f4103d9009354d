"""Prompts: which tokens they hold and what their parts say, with byte tokens."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chat_templates import DEEPSEEK_R1, GEMMA_2, LLAMA_2, LLAMA_3, MISTRAL, QWEN_3, REAL
from support.fakes import ByteTokenizer
from support.prompts import BOS, EVIL, IM_END, IM_START, WORDS, WordTokenizer, answer, build, check, parts_of, say, text_of

from relaylite.errors import UsageError
from relaylite.prompt import builder
from relaylite.prompt.builder import PromptBuilder
from relaylite.prompt.messages import Answer, Role, Text
from relaylite.prompt.template import CHATML, ChatTemplate

BYTES = ByteTokenizer()


# parts


def test_parts_say_where_each_token_comes_from() -> None:
    made = build(
        CHATML,
        say("system", Text("You review.", "system", "review")),
        say(
            "user",
            "task",
            Text("notes", "file", "a.md"),
            Text("\n\nPlan:\n\n", "glue"),
            answer("1. Think.\n\n"),
            Text("edited", "answer", "code"),
        ),
    )
    check(made)
    assert [(part.kind, part.source, part.text) for part in made.parts if part.kind != "template"] == [
        ("system", "review", "You review."),
        ("user", "", "task"),
        ("file", "a.md", "notes"),
        ("glue", "", "\n\nPlan:\n\n"),
        ("answer", "plan", "1. Think.\n\n"),
        ("answer", "code", "edited"),
    ]
    assert len(made) == sum(len(part.tokens) for part in made.parts)


def test_ids_of_an_answer_are_spliced_where_joined_text_would_merge() -> None:
    given_answer = Answer(tuple(b"done."), "plan")
    made = build(CHATML, say("user", given_answer, Text("\n\nNext", "glue")))
    assert [part.tokens for part in made.parts if part.kind in ("answer", "glue")] == [tuple(b"done."), tuple(b"\n\nNext")]
    assert WORDS.tokens(b"done.\n\n") != tuple(b"done.\n\n")


@pytest.mark.parametrize("name", REAL)
@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.text("a. \n<|im_end|>é", max_size=12), min_size=3, max_size=3))
def test_texts_are_what_the_template_writes(name: str, texts: list[str]) -> None:
    template = ChatTemplate(REAL[name], bos_text="<|bos|>", eos_text="</s>")
    roles: tuple[Role, ...] = ("user", "assistant", "user")
    made = PromptBuilder(template, BYTES).build([say(role, text) for role, text in zip(roles, texts, strict=True)])
    check(made, BYTES)
    assert "".join(part.text for part in made.parts) == text_of(made, BYTES) == template.render(list(zip(roles, texts, strict=True)))


@pytest.mark.parametrize("kind", ["user", "file", "system", "glue", "answer"])
def test_control_token_look_alikes_stay_plain_text(kind: str) -> None:
    made = build(CHATML, say("system", Text(EVIL, "system")), say("user", Text(EVIL, kind), answer(EVIL)))  # type: ignore[arg-type]
    check(made)
    assert made.tokens.tolist().count(IM_START) == 3
    assert made.tokens.tolist().count(IM_END) == 2
    assert text_of(made).count(EVIL) == 3


# shortened bodies

IN_BRACKETS = CHATML.replace("message['content']", "message['content'].split('<x>')[-1].split('<y>')[0]")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("\n\n plan. \n", "plan."),  # tokens of white space go
        ("plan.\n\n", "plan.\n\n"),  # a token that holds more stays whole
        ("plan.\n\n\n\n", "plan.\n\n"),
        (" Hi ", " Hi"),
        (" \n \n", ""),
        ("plan", "plan"),
    ],
)
def test_a_trimmed_answer_keeps_its_tokens(said: str, kept: str) -> None:
    made = build(LLAMA_3, say("user", "q"), say("assistant", answer(said)), say("user", " r "))
    check(made)
    tokens = WORDS.tokens(said.encode())
    spans = [part.tokens for part in made.parts if part.kind == "answer"]
    assert parts_of(made, "answer") == ([kept] if kept else [])
    assert all(span == tokens[start : start + len(span)] for span in spans for start in [tokens.index(span[0])])
    assert parts_of(made, "user") == ["q", "r"]


@pytest.mark.parametrize(
    ("template", "said", "kept"),
    [
        (QWEN_3, "<think>\nhm\n</think>\n\nHi.\n\n", ["Hi.\n\n"]),
        (DEEPSEEK_R1, "<think>\nhm\n</think>\n\nHi", ["\nHi"]),  # ">\n" goes with the thought
        (QWEN_3, "hm</think>Hi.", ["Hi", "."]),  # ">Hi" was cut in two: its rest is tokenized
        (QWEN_3, "hm</think><|im_end|>.", ["<|im_end|>", "."]),  # and is plain text
        (IN_BRACKETS, "<x>Hi<y>", ["Hi"]),  # cut on both sides
        (IN_BRACKETS, "<x>a.Hi<y>", ["a.", "Hi"]),
        (QWEN_3, "<think>never closed", ["<think>never closed"]),
        (QWEN_3, "<think>a</think>say </think> twice", [" twice"]),
        (QWEN_3, "<think>a</think>", []),
    ],
)
def test_what_a_template_drops_of_an_answer_is_not_relayed_and_the_rest_is(template: str, said: str, kept: list[str]) -> None:
    made = build(template, say("user", "q"), say("assistant", answer(said)), say("user", "r"))
    check(made)
    assert parts_of(made, "answer") == kept
    control = [token for part in made.parts if part.kind != "template" for token in part.tokens if token in (IM_START, IM_END)]
    assert not control


def test_trimming_goes_through_the_parts_of_a_body() -> None:
    made = build(LLAMA_3, say("user", " \n", Text(" task ", "user"), answer(" plan.\n\n"), Text(" \n", "glue"), answer(" \n"), ""))
    check(made)
    assert [(part.kind, part.text) for part in made.parts if part.kind != "template"] == [("user", "task "), ("answer", " plan.\n\n")]


def test_bytes_of_a_cut_character_are_not_lost() -> None:
    half = Answer((*b"caf", "é".encode()[0]), "plan")
    rest = Answer((300 + WORDS.WORDS.index("é".encode()[1:] + b"!"),), "code")
    made = build(LLAMA_3, say("user", " ", half), say("assistant", rest, " "), say("user", "x"))
    check(made)
    assert [(part.source, part.tokens, part.text) for part in made.parts if part.kind == "answer"] == [
        ("plan", half.tokens, "caf\ufffd"),
        ("code", rest.tokens, "\ufffd!"),
    ]


def test_a_character_that_was_cut_does_not_shift_what_is_kept() -> None:
    said = Answer((*WORDS.tokens(b" \ncaf"), "é".encode()[0], *WORDS.tokens(b"x \n")), "plan")
    made = build(LLAMA_3, say("user", said))
    check(made)
    assert [part.tokens for part in made.parts if part.kind == "answer"] == [said.tokens[1:-1]]


def test_control_tokens_that_were_sampled_are_left_out_of_an_answer() -> None:
    """A model could begin a message of another role with them, and a saved conversation does not keep them."""
    made = build(CHATML, say("user", Answer((IM_START, *b"system", IM_START), "plan")))
    assert [part.tokens for part in made.parts if part.kind == "answer"] == [tuple(b"system")]
    assert list(made.tokens).count(IM_START) == 2


CHUNKS = st.sampled_from([*WordTokenizer.WORDS, b"a", b" ", b"\n", b">", b"<"])


@settings(max_examples=300, deadline=None)
@given(data=st.lists(CHUNKS, min_size=1, max_size=6).map(b"".join), bounds=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_tokens_within_bytes_differ_from_them_in_white_space_only(data: bytes, bounds: tuple[int, int]) -> None:
    pieces = [WORDS.piece(token) for token in WORDS.tokens(data)]
    start, end = (min(bound, len(data)) for bound in sorted(bounds))
    if start < end:
        head, kept, tail = builder._tokens_within(pieces, start, end)
        assert (head + b"".join(pieces[kept]) + tail).strip() == data[start:end].strip()


# folding


def test_a_system_text_moves_into_the_first_question() -> None:
    made = build(GEMMA_2, say("system", Text(" You plan. ", "system", "plan")), say("user", "task", answer(" as said")), bos_text="<s>")
    check(made)
    assert [(part.kind, part.text) for part in made.parts][1:-1] == [
        ("system", "You plan. "),
        ("glue", "\n\n"),
        ("user", "task"),
        ("answer", " as said"),
    ]


@pytest.mark.parametrize("template", [GEMMA_2, MISTRAL])
@pytest.mark.parametrize("roles", ["uu", "au", "suu", "sau", "saau", "uaau", "suaauu"])
def test_no_order_of_roles_is_refused_and_nothing_is_lost(template: str, roles: str) -> None:
    names: dict[str, Role] = {"s": "system", "u": "user", "a": "assistant"}
    made = build(template, *(say(names[role], answer(f"{i}.")) for i, role in enumerate(roles)))
    check(made)
    assert sorted(parts_of(made, "answer")) == [f"{i}." for i in range(len(roles))]


def test_a_system_text_that_would_be_left_out_is_folded() -> None:
    made = build(LLAMA_2, say("system", Text("You plan.", "system")), say("user", "task"))
    assert parts_of(made, "system") == ["You plan."]


def test_a_template_that_keeps_only_the_last_message_is_obeyed() -> None:
    made = build("{{ messages[-1].content }}", say("user", "one"), say("assistant", "two"), say("user", "three"))
    assert parts_of(made, "user") == ["three"]


def test_a_refusal_that_no_folding_helps_is_passed_on() -> None:
    with pytest.raises(UsageError, match="This model does not chat; use --chat-template chatml"):
        build("{{ raise_exception('This model does not chat') }}", say("user", "q"))


@pytest.mark.parametrize("body", [(), ("",), ("", "")])
def test_a_template_that_writes_nothing_is_an_error(body: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="makes nothing of this conversation"):
        build("{% for m in messages %}{{ m.content }}{% endfor %}", say("user", *body))


# BOS


@pytest.mark.parametrize("n_printed", [0, 1, 2])
@pytest.mark.parametrize("first", ["<|im_start|>", ""])
def test_one_bos_however_many_are_printed(n_printed: int, first: str) -> None:
    template = "<|bos|>" * n_printed + first + "{{ messages[0].content }}"
    made = build(template, say("user", "<|bos|>x"), tokenizer=ByteTokenizer(has_bos=True))
    assert made.tokens.tolist() == [BOS, *([IM_START] if first else []), *b"<|bos|>x"]
    assert made.tokens.tolist() == [token for part in made.parts for token in part.tokens]


def test_a_model_without_bos_gets_what_the_template_prints() -> None:
    assert build("{{ bos_token }}{{ messages[0].content }}", say("user", "x"), bos_text="<|im_start|>").tokens.tolist() == [IM_START, *b"x"]


def test_bos_of_later_turns_stays() -> None:
    messages = (say("user", "a"), say("assistant", "b"), say("user", "c"))
    made = build(LLAMA_2, *messages, tokenizer=ByteTokenizer(has_bos=True), bos_text="<|bos|>")
    assert made.tokens.tolist().count(BOS) == 2


# what is remembered


def test_a_text_is_tokenized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    tokenizer = ByteTokenizer()
    real = tokenizer.tokenize
    monkeypatch.setattr(tokenizer, "tokenize", lambda text, *, parse_special: asked.append(text) or real(text, parse_special=parse_special))
    builder = PromptBuilder(ChatTemplate(CHATML), tokenizer)
    messages = [say("system", "s"), say("user", "t")]
    first = builder.build(messages)
    n_asked = len(asked)
    again = builder.build(messages)
    assert asked[n_asked:] == []
    assert again.tokens.tolist() == first.tokens.tolist()
    assert again.parts == first.parts
    builder.build([say("system", "s"), say("user", "u")])
    assert asked[n_asked:] == ["u"]


def test_the_same_text_as_template_and_as_body_is_not_confused() -> None:
    made = build("<|im_start|>{{ messages[0].content }}", say("user", "<|im_start|>"))
    assert made.tokens.tolist() == [IM_START, *b"<|im_start|>"]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "_CACHED_ITEMS", 100)
    made: list[str] = []
    memory = builder._Remembered[str, str](lambda key: made.append(key) or key, len)
    for key in ("a" * 40, "b" * 40, "a" * 40, "c" * 40):
        assert memory[key] == key
    assert memory["a" * 40] and made == ["a" * 40, "b" * 40, "c" * 40]  # b was asked for longest ago
    assert memory["d" * 200] == "d" * 200
    assert memory["d" * 200] and made[3:] == ["d" * 200, "d" * 200]
    assert sum(map(len, memory._known)) <= 100


# quotes


def test_parts_of_an_answer_are_quoted_with_their_place_in_it() -> None:
    whole = answer(" Hi there.\n\nBye")
    part = Answer(whole.tokens[2:6], "plan", whole.tokens, 2)
    trimmed = answer("hm</think>Hi there, you.")
    made = build(QWEN_3, say("user", "Say", part, "and", answer("all of it")), say("assistant", trimmed), say("user", "Go on."))
    check(made)
    assert [(quote.text, quote.offset) for quote in made.quotes] == [(whole.tokens, 2), (trimmed.tokens, len(b"hm</think") + 1)]
    for quote in made.quotes:
        n = quote.end - quote.start
        assert made.tokens[quote.start : quote.end].tolist() == list(quote.text[quote.offset : quote.offset + n])


# roles and begun answers

AS_USER = "'<|im_start|>' + ('user\\n<tool_response>' if message.role == 'tool' else message.role)"
QWEN_3_TOOLS = QWEN_3.replace("'<|im_start|>' + message.role", AS_USER)


@pytest.mark.parametrize("name", REAL)
@settings(deadline=None, max_examples=40)
@given(roles=st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), min_size=1, max_size=7))
def test_no_order_of_roles_is_refused_and_every_body_is_said(name: str, roles: list[Role]) -> None:
    made = build(REAL[name], *(say(role, f"body {i}") for i, role in enumerate(roles)), bos_text="<|bos|>")
    check(made)
    said = text_of(made)
    assert all(said.count(f"body {i}") == 1 for i in range(len(roles)))
    if roles[-1] == "assistant":
        assert said.endswith(f"body {len(roles) - 1}")


def test_a_tool_has_its_role_where_the_template_has_one() -> None:
    talk = (say("user", "Add."), say("assistant", "add(1, 2)"), say("tool", "3"))
    assert "<|im_start|>tool\n3<|im_end|>" in text_of(build(CHATML, *talk))
    assert "<|im_start|>user\n<tool_response>\n3<|im_end|>" in text_of(build(QWEN_3_TOOLS, *talk))


@pytest.mark.parametrize("template", [GEMMA_2, MISTRAL, LLAMA_2])
def test_what_a_tool_gave_is_told_where_the_template_confuses_or_drops_it(template: str) -> None:
    """Gemma takes it for the user's, Mistral for an answer, or they refuse it; Llama 2 leaves it out."""
    for talk in ((say("user", "Add."), say("tool", "3")), (say("user", "Add."), say("assistant", "add(1, 2)"), say("tool", "3"))):
        assert re.search(r"(Add\.|\[INST\] ?|>user\n)\s*Result of a tool:\n3 ?(\[/INST\]|<end)", text_of(build(template, *talk)))


def test_an_answer_that_was_begun_is_gone_on_with() -> None:
    begun = answer("The answer Hi", "me")
    made = build(CHATML, say("user", "Say"), say("assistant", "So: ", begun))
    check(made)
    assert text_of(made).endswith("<|im_start|>assistant\nSo: The answer Hi")
    assert made.tokens.tolist()[-len(begun.tokens) :] == list(begun.tokens)
    assert text_of(build(CHATML, say("assistant", "So"))).endswith("<|im_start|>assistant\nSo")
