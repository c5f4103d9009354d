"""Task files are told by their content, and what is wrong with one is said in a line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from relaylite import paths
from relaylite.bench.tasks import Task, read_tasks
from relaylite.errors import UsageError

GSM8K = {"question": "What is 2 + 2?", "answer": "2 + 2 = <<2+2=4>>4\n#### 1,234"}
HUMANEVAL = {"task_id": "HumanEval/0", "prompt": "def f(x):\n    '''Twice.'''\n", "entry_point": "f", "test": "def check(c): ..."}
MMLU_ROW = '"Which is it, then?",first,"sec,ond",third,fourth,B'


def tasks_in(tmp_path: Path, text: str, n: int | None = None) -> list[Task]:
    file = tmp_path / "tasks"
    file.write_text(text, encoding="utf-8")
    return read_tasks(file, n)


def test_gsm8k_has_the_number_behind_the_mark(tmp_path: Path) -> None:
    [task] = tasks_in(tmp_path, json.dumps(GSM8K) + "\n\n")
    assert (task.kind, task.text, task.expected) == ("gsm8k", "What is 2 + 2?", "1,234")
    assert task.agents == ("plan", "solve", "check") and task.is_graded(execute=False)


def test_humaneval_shows_the_code_and_is_judged_only_by_executing(tmp_path: Path) -> None:
    [task] = tasks_in(tmp_path, json.dumps(HUMANEVAL))
    assert task.kind == "humaneval" and "'''Twice.'''" in task.text and task.agents == ("plan", "code", "review")
    assert task.program is not None and task.program.entry_point == "f"
    assert task.is_graded(execute=True) and not task.is_graded(execute=False)


@pytest.mark.parametrize("head", ["", "subject,question,A,B,C,D,answer\n"])
@pytest.mark.parametrize("subject", ["", "algebra,"])
def test_mmlu_with_and_without_header_and_subject(tmp_path: Path, head: str, subject: str) -> None:
    [task] = tasks_in(tmp_path, f"{head}{subject}{MMLU_ROW}\n")
    assert task.kind == "mmlu" and task.expected == "B"
    assert task.text.startswith("Which is it, then?\n\nA. first\nB. sec,ond\nC. third\nD. fourth\n")


def test_own_tasks_and_mixed_files(tmp_path: Path) -> None:
    lines = [json.dumps(entry) for entry in ({"task": "Write a poem."}, GSM8K, HUMANEVAL)]
    assert [task.kind for task in tasks_in(tmp_path, "\ufeff" + "\n".join(lines))] == ["plain", "gsm8k", "humaneval"]
    assert [task.kind for task in tasks_in(tmp_path, "\n".join(lines), 2)] == ["plain", "gsm8k"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no tasks"),
        ('{"task": "x"}\n{"other": 1}', "line 2 is no task"),
        ('{"task": "x"}\nnonsense', "line 2 is no task"),
        ('{"question": "x", "answer": "no mark"}', "no number behind ####"),
        ('{"task": 3}', "task is no text"),
        ("a,b,c\n", "row 1 is no task"),
        ("q,a,b,c,d,E\n", "row 1 is no task"),
    ],
)
def test_what_is_no_task_is_said_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        tasks_in(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_one_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the tasks"):
        read_tasks(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_tasks(tmp_path / "binary")


def test_what_comes_along_for_calibration_is_a_mixture() -> None:
    tasks = read_tasks(paths.calibration_tasks_file())
    assert len(tasks) == 40 and {task.kind for task in tasks[:4]} == {"gsm8k", "humaneval"}


def test_only_ends_of_lines_end_a_task(tmp_path: Path) -> None:
    """JSON may hold the ends of lines of Unicode as they are."""
    text = "one\u2028two\u0085three\x0cfour"
    for end in ("\n", "\r\n", "\r"):
        (tmp_path / "tasks").write_bytes(end.join([json.dumps({"task": text}, ensure_ascii=False)] * 2).encode())
        assert [task.text for task in read_tasks(tmp_path / "tasks")] == [text] * 2
    assert "one\u2028two" in tasks_in(tmp_path, '"one\u2028two",a,b,c,d,B\n')[0].text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('"' + "x" * 200_000 + '",a,b,c,d,B\n', "cannot be read as CSV: field larger than field limit"),
        ('{"task": ' + "[" * 100_000, "line 1 is no task (maximum recursion depth exceeded"),
        ('{"task": "a \\ud800 b"}', "line 1 is no task ("),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as caught:
        tasks_in(tmp_path, text)
    assert "\n" not in str(caught.value)
