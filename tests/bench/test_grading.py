"""Answers are judged by what they say in the end, and programs by running them within limits."""

from __future__ import annotations

from decimal import Decimal

import pytest

from relaylite.bench.grading import code_in, is_right, letter_in, number_in, passes
from relaylite.bench.tasks import Program, Task


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("2 + 2 = 4\nAnswer: 4", "4"),
        ("**Answer:** $1,234.50 in all, not 7", "1234.50"),
        ("The answer is -3.", "-3"),
        ("Answer: 5\nNo, wrong.\nAnswer: 6 apples", "6"),
        ("Answer: none\nso it is 12 or rather 13", "13"),
        ("first 1, then 2", "2"),
        ("It makes 18.0", "18"),
    ],
)
def test_the_number_that_an_answer_states(answer: str, number: str) -> None:
    assert number_in(answer) == Decimal(number)


def test_no_number() -> None:
    assert number_in("I do not know.") is None
    assert not is_right(Task("gsm8k", "?", "4"), "I do not know.")


def test_numbers_are_compared_as_numbers() -> None:
    task = Task("gsm8k", "?", "1,000")
    assert is_right(task, "Answer: $1000.00") and not is_right(task, "Answer: 100")


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("Answer: B", "B"),
        ("A is wrong, so the answer is (C).", "C"),
        ("**Answer:** **D**", "D"),
        ("Answer: A\nwait\nAnswer: B. the second", "B"),
        ("B. the second", "B"),
        ("C", "C"),
        ("A good question; I do not know", "A"),
        ("Because of that", None),
        ("Nothing fits", None),
    ],
)
def test_the_letter_that_an_answer_states(answer: str, letter: str | None) -> None:
    assert letter_in(answer) == letter


DOUBLE = Program(
    "import math\n\ndef double(x):\n    '''Twice x.'''\n", "def check(f):\n    assert f(2) == 4\n    assert f(-1) == -2\n", "double"
)


@pytest.mark.parametrize(
    "answer",
    [
        "```python\ndef double(x):\n    return 2 * x\n```\nIt doubles.",
        "Here:\n```\ndef double(x):\n    return math.floor(2 * x)\n```\nTry it:\n```python\nprint(double(2))\n```",
        "    return x + x\n",
        "def double(x):\n    print('x' * 1_000_000)\n    return 2 * x\n",
    ],
)
def test_programs_that_pass(answer: str) -> None:
    assert passes(DOUBLE, answer)


@pytest.mark.parametrize(
    "answer",
    [
        "def double(x):\n    return x * x\n",
        "def double(x: return",
        "def other(x):\n    return 2 * x\n",
        "import sys; sys.exit(0)\ndef double(x): ...",
        "import os; os._exit(0)\ndef double(x): ...",
        "def double(x):\n    return bytearray(1 << 40) and 2 * x\n",
        "",
    ],
)
def test_programs_that_fail_or_leave_early(answer: str) -> None:
    assert not passes(DOUBLE, answer)


def test_a_program_that_does_not_end_is_ended() -> None:
    assert not passes(DOUBLE, "def double(x):\n    while True:\n        pass\n", seconds=1)


def test_the_code_block_that_defines_the_function_counts() -> None:
    answer = "```python\ndef f():\n    return 1\n```\nand\n```\nf()\n```"
    assert code_in(answer, "f") == "def f():\n    return 1\n"
    assert code_in("```\ncut off", "f") == "cut off"
