"""What a model says reaches a terminal as text only, and a pipe as it is."""

from __future__ import annotations

import io

import pytest

from relaylite.cli import terminal as terminal_module
from relaylite.cli.narrator import Narrator
from relaylite.cli.terminal import Output
from relaylite.events import Phase, TurnStarted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


def output_on(terminal: Terminal, *, quiet: bool = False) -> Output:
    """Standard output and standard error, both on one screen."""
    return Output(quiet=quiet, stdout=terminal, stderr=terminal)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("\x9b2J\x9d0;title\x9c", "\ufffd2J\ufffd0;title\ufffd"),
        ("over\rwrite\x08\x7f\x00", "overwrite␈␡␀"),
        ("a\u202eb\u2066c", "abc"),
        ("tab\tline\nümläut 🎈", "tab\tline\nümläut 🎈"),
    ],
)
def test_control_sequences_do_not_reach_a_terminal(terminal: Terminal, text: str, shown: str) -> None:
    output_on(terminal).write(text)
    assert terminal.getvalue() == shown


def test_a_pipe_gets_the_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Output().write("\x1b[31mred\r\n")
    assert capsys.readouterr().out == "\x1b[31mred\r\n"


def test_notes_and_headings_from_files_are_made_fit_too(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    output = output_on(terminal)
    output.line("## a\x1b[2J", color="green")
    output.note("bad \x1b]0;x\x07 name")
    assert terminal.getvalue() == "## a␛[2J\nbad ␛]0;x␇ name\n"


@pytest.mark.parametrize("end", ["\n", "\u2028", "\x85", "\x0b", "\x0c", "\r\n"])
def test_no_name_in_a_line_begins_another_one(terminal: Terminal, end: str) -> None:
    output_on(terminal).line(f"a{end}relaylite: forged")
    assert terminal.getvalue() == "a relaylite: forged\n"


def test_headings_have_colors_unless_no_color_is_set(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    output_on(terminal).line("## a", color="#ff8800")
    assert terminal.getvalue() == "\x1b[38;2;255;136;0m\x1b[1m## a\x1b[0m\n"


def test_a_status_is_replaced_by_what_follows_and_does_not_cut_answers(terminal: Terminal) -> None:
    output = output_on(terminal)
    output.status("loading")
    output.write("answer")
    output.status("ignored in the middle of a line")
    assert terminal.getvalue() == "\r\x1b[Kloading\r\x1b[Kanswer"


def test_a_note_on_the_same_screen_starts_on_a_line_of_its_own(terminal: Terminal) -> None:
    output = output_on(terminal)
    output.write("answer")
    output.note("figures")
    assert terminal.getvalue() == "answer\nfigures\n"


def test_quiet_leaves_out_notes_and_status(terminal: Terminal) -> None:
    output = output_on(terminal, quiet=True)
    output.status("loading")
    output.note("note")
    output.write("answer")
    assert terminal.getvalue() == "answer"


def test_during_repair_the_status_promises_no_recomputed_rows(terminal: Terminal) -> None:
    """The stage selects. What is selected is recomputed in the stage behind it, and policy `naive` selects nothing."""
    narrator = Narrator(output_on(terminal), (), shows_answers=False)
    narrator.show(TurnStarted("plan", 0, ()))
    narrator.show(Phase("repair"))
    assert terminal.getvalue().endswith("plan looks which rows to recompute …")


def test_where_stderr_is_no_terminal_progress_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(terminal_module.time, "monotonic", lambda: now[0])
    stderr = io.StringIO()
    output = Output(stdout=io.StringIO(), stderr=stderr)
    for second in range(35):
        now[0] = float(second)
        output.progress(second / 100, f"prompt {second}")
        output.tick()
        output.tick()
    assert stderr.getvalue() == "10% prompt 10\n20% prompt 20\n30% prompt 30\n"
    output.end_progress()
    now[0] = 100.0
    output.tick()
    assert stderr.getvalue().count("\n") == 3, "nothing goes on"


def test_progress_on_a_terminal_is_a_bar_and_quiet_says_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_module, "LINE_EVERY_S", 0.0)
    output = output_on(terminal)
    output.download("m.gguf", 5_000_000, 10_000_000)
    output.tick()
    assert terminal.getvalue() == f"\r\x1b[K{'█' * 15}{'░' * 15}  50% m.gguf: 5 of 10 MB"
    stderr = io.StringIO()
    quiet = Output(quiet=True, stdout=io.StringIO(), stderr=stderr)
    quiet.progress(0.5, "x")
    quiet.tick()
    assert stderr.getvalue() == ""
