"""`CommandGroup`: imports a command when it is called, and turns what it raises into one line on stderr and an exit code.

Commands just raise. Only here errors become text, and with --json a document.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self, TextIO

import click

from relaylite import paths
from relaylite.cli import interrupts
from relaylite.cli.command import Group
from relaylite.cli.document import Document
from relaylite.errors import RelayliteError
from relaylite.terminal_text import fit_for_terminal

FAILED, USAGE, INTERRUPTED, NO_READER = 1, 2, 130, 141
BY_SIGNAL = 128  # and the number of the signal
STOPPED = "stopped"


class CommandGroup(Group):
    """`commands_by_name` maps a command's name to its short help; the module of that name in `package` holds `command`."""

    def __init__(self, *args: Any, commands_by_name: Mapping[str, str], package: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._short_helps, self._package = commands_by_name, package

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._short_helps)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._short_helps:
            return None
        command: click.Command = importlib.import_module(f"{self._package}.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:  # click would print an empty line for it and drop what it says
            stop = interrupts.Interrupted(*error.args)
            for note in _notes(error):
                stop.add_note(note)
            raise stop from error
        except BrokenPipeError as error:  # for which click leaves with exit code 1
            raise interrupts.ReaderGone from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._short_helps.items()))

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run and exit. An integer that a command returns is the exit code."""
        args = sys.argv[1:] if args is None else list(args)
        document = Document(args)
        extra |= {"standalone_mode": False, "obj": document}
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # closed by who started us
                setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
        with _Signals() as signals:
            code, error = _guarded(lambda: super(CommandGroup, self).main(args, prog_name or "relaylite", **extra))
            signals.are_final = True
            text = document.text(error, sys.stdout.encoding or "")
            if text is not None:
                code = _guarded(lambda: click.echo(text))[0] or code
        if interrupts.is_anything_left():  # a native call that did not stop in time: nothing may be torn down under it
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError):
                    stream.flush()
            os._exit(code)
        sys.exit(code)


def _guarded(work: Callable[[], Any]) -> tuple[int, str | None]:
    """What `work` returned, if that is a number, else 0; or the code of what it raised, and the one line that was said of it."""
    try:
        code = work()
        sys.stdout.flush()
        return (code if isinstance(code, int) else 0), None
    except RelayliteError as error:
        return _say(_words(error, str(error)), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE, "no command is given; `relaylite --help` lists them"
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "relaylite"
        return _say(f"{error.format_message().removesuffix('.')}; `{command} --help` says more", USAGE)
    except click.ClickException as error:
        return _say(_words(error, error.format_message()), error.exit_code)
    except interrupts.Terminated as stop:
        if lost := interrupts.lost_worker():  # said when it went away
            return FAILED, lost
        return _say(_words(stop, str(stop) or STOPPED), BY_SIGNAL + stop.number)
    except (interrupts.Interrupted, KeyboardInterrupt, click.Abort) as stop:
        return _say(_words(stop, str(stop) or STOPPED), INTERRUPTED)
    except (interrupts.ReaderGone, BrokenPipeError):
        _let_go_nowhere(sys.stdout)
        return NO_READER, None
    except MemoryError:
        return _say("out of memory; use a smaller model or context", FAILED)
    except OSError as error:
        return _say(_words(error, f"{error.filename or 'system'}: {error.strerror or error}"), FAILED)
    except Exception as error:  # a defect: the user gets one line, the traceback goes to a file
        return _say(f"internal error: {type(error).__name__}: {error}; {_keep_traceback()}", FAILED)


def _notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", ()))


def _words(error: BaseException, says: str) -> str:
    """What the error says, and its notes: what failed afterwards."""
    return "; ".join([says, *_notes(error)])


def _say(message: str, code: int) -> tuple[int, str]:
    line = " ".join(message.split())
    named = line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")  # a file name may be no UTF-8 text
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # a status that was not done with, or the ^C of a terminal
    try:
        print(f"{clear}relaylite: {fit_for_terminal(named)}", file=sys.stderr, flush=True)
    except OSError:  # nobody is there to read it; the exit code still says it
        _let_go_nowhere(sys.stderr)
    return code, line


def _let_go_nowhere(stream: TextIO) -> None:
    """What read it is gone, and Python flushes it once more at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _keep_traceback() -> str:
    """Write the current traceback to the log folder. Returns what to tell the user about it."""
    try:
        file = paths.ensure(paths.logs_folder()) / "traceback.txt"
        with paths.replacing(file) as written:
            written.write_text(traceback.format_exc(), encoding="utf-8", errors="replace")
    except (OSError, RelayliteError):
        return "the traceback could not be written"
    return f"the traceback is in {file}; please report it"


class _Signals:
    """While a command runs, the first signal that ends it raises Interrupted or Terminated in the main thread.

    A later one, while that is on its way out, ends the process at once, with the exit code of its own; so does every one as soon as they
    `are_final`. `Work` has handlers of its own.
    """

    def __init__(self) -> None:
        self.are_final = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            numbers = (signal.SIGINT, *interrupts.ending_signals())
            self._before = {number: signal.signal(number, self._raise) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _raise(self, number: int, _: FrameType | None) -> NoReturn:
        if self.are_final:
            os._exit(BY_SIGNAL + number)
        self.are_final = True
        raise interrupts.Interrupted if number == signal.SIGINT else interrupts.Terminated(number=number)
