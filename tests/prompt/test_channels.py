"""Models that write in channels, as gpt-oss does: what of an answer goes into later prompts."""

from __future__ import annotations

import pytest
from support.chat_templates import GPT_OSS
from support.prompts import say, text_of

from relaylite.prompt.builder import PromptBuilder
from relaylite.prompt.channels import said
from relaylite.prompt.messages import Answer
from relaylite.prompt.template import CHATML, ChatTemplate


class HarmonyTokenizer:
    """Bytes, and gpt-oss's marks as llama.cpp has them: `<|end|>` is a control token, the others have a text."""

    MARKS = ("<|start|>", "<|channel|>", "<|message|>")
    FIRST, END = 400, 500
    bos = None

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        tokens: list[int] = []
        while text:
            mark = next((mark for mark in self.MARKS if parse_special and text.startswith(mark)), "")
            is_end = parse_special and text.startswith("<|end|>")
            tokens += [self.FIRST + self.MARKS.index(mark)] if mark else [self.END] if is_end else text[0].encode()
            text = text.removeprefix(mark or ("<|end|>" if is_end else text[0]))
        return tokens

    def piece(self, token: int) -> bytes:
        return self.MARKS[token - self.FIRST].encode() if self.FIRST <= token < self.END else bytes([token]) if token < 256 else b""

    def is_eog(self, token: int) -> bool:
        return False


HARMONY = HarmonyTokenizer()
THOUGHTS = "<|channel|>analysis<|message|>The user asks for a colour.<|end|><|start|>assistant"
FINAL = "<|channel|>final<|message|>"


def sampled(text: str) -> Answer:
    return Answer(tuple(HARMONY.tokenize(text, parse_special=True)), "plan")


def spelt(text: str) -> Answer:
    """As an edited answer has it: the marks are plain text."""
    return Answer(tuple(HARMONY.tokenize(text, parse_special=False)), "plan")


@pytest.mark.parametrize("answer", [sampled(THOUGHTS + FINAL + "Blue."), spelt(THOUGHTS + FINAL + "Blue.")], ids=["sampled", "spelt"])
def test_the_final_channel_goes_back_by_its_ids(answer: Answer) -> None:
    prompts = PromptBuilder(ChatTemplate(GPT_OSS), HARMONY)
    made = prompts.build([say("user", "A colour?"), say("assistant", answer), say("user", "Another.")])
    assert text_of(made, HARMONY).endswith(f"<|start|>assistant{FINAL}Blue.<|start|>user<|message|>Another.<|start|>assistant")
    assert [part.tokens for part in made.parts if part.kind == "answer"] == [tuple(b"Blue.")]


def test_who_reads_an_answer_reads_its_final_channel() -> None:
    prompts = PromptBuilder(ChatTemplate(GPT_OSS), HARMONY)
    made = prompts.build([say("user", "Check this: ", sampled(THOUGHTS + FINAL + "Blue."))])
    assert text_of(made, HARMONY) == "<|start|>user<|message|>Check this: Blue.<|start|>assistant"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("No marks.", "No marks."),
        (THOUGHTS + FINAL + "Blue.", "Blue."),
        (THOUGHTS, "The user asks for a colour."),
        ("<|channel|>analysis<|message|>It wants", "It wants"),
        (THOUGHTS + FINAL, ""),
        ("<|channel|>ana", ""),
        (THOUGHTS + FINAL + "Blue.<|start|>assistant<|channel|>comm", "Blue."),
        (THOUGHTS + FINAL + "Blue.<|end|><|start|>assistant<|channel|>analysis<|message|>Done.", "Blue."),
    ],
)
def test_what_is_meant_for_the_reader(text: str, shown: str) -> None:
    start, end = said(text)
    assert text[start:end] == shown
    prompts = PromptBuilder(ChatTemplate(GPT_OSS), HARMONY)
    made = prompts.build([say("user", "?"), say("assistant", sampled(text)), say("user", "?")])
    assert "".join(part.text for part in made.parts if part.kind == "answer") == shown


def test_marks_of_channels_are_text_for_other_models() -> None:
    prompts = PromptBuilder(ChatTemplate(CHATML), HARMONY)
    made = prompts.build([say("user", "?"), say("assistant", spelt(FINAL + "x")), say("user", "?")])
    assert "".join(part.text for part in made.parts if part.kind == "answer") == FINAL + "x"
