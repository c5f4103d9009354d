"""`PlainChat`: a conversation with a chain, line by line: lines in, answers and notes out."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from relaylite.chain.attachments import Attachment, attached_in, words_without_file
from relaylite.chain.conversation import Conversation
from relaylite.cli.chains import events_of
from relaylite.cli.comparing import comparison_lines
from relaylite.cli.interrupts import Work
from relaylite.cli.narrator import Narrator
from relaylite.cli.tasks import checked
from relaylite.cli.terminal import Output
from relaylite.errors import UsageError, did_you_mean
from relaylite.events import TextDelta
from relaylite.reuse.policies import parse_policy
from relaylite.terminal_text import one_line

if TYPE_CHECKING:
    from relaylite.chain.chain import Chain
    from relaylite.chain.result import Comparison
    from relaylite.events import Event

HELP = (
    "/retry answers the last message anew, /undo takes the last change back (also of /retry) and /redo brings it again, "
    "/continue goes on with a last answer that was cut, /name NAME names the session, "
    "/compare POLICY has the last answer written under another policy too (full by default) and says where they part, "
    "/policy NAME changes what is taken over, /quit ends; anything else goes to the agents, and @FILE in it attaches that file"
)
_COMMAND = re.compile(r"/[A-Za-z?]+")  # a path such as /etc/hosts is none


class PlainChat:
    """Reads lines until they end. A line that cannot be carried out is one line on stderr, and the chat goes on.

    On a terminal Ctrl-C stops the answer only. Elsewhere it ends the chat, and lines that were refused show in the exit code.
    """

    def __init__(self, chain: Chain, output: Output, attached: list[Attachment]) -> None:
        """`attached` goes with the first message."""
        self._chain, self._output, self._attached = chain, output, attached
        self._is_interactive = sys.stdin.isatty()
        self._narrator = Narrator(output, chain.agents)
        self._commands: dict[str, Callable[[str], None]] = {
            "/help": self._help, "/retry": self._retry, "/undo": self._undo, "/redo": self._redo, "/continue": self._continue,
            "/name": self._name, "/compare": self._compare, "/policy": self._policy, "/quit": self._quit,
        }  # fmt: skip
        self._has_ended = False

    def run(self) -> int:
        """The exit code."""
        if self._is_interactive:
            names = [agent.name for agent in self._chain.agents]
            self._output.note(f"{', '.join(names)} {'are' if len(names) > 1 else 'is'} listening; /help shows more")
        code = 0
        mark = codecs.BOM_UTF8  # some programs begin a text with it
        while not self._has_ended and (line := self._line()):
            line, mark = line.removeprefix(mark), b""
            try:
                self._act(_decoded(line))
            except UsageError as error:
                self._output.error(str(error))
                code = code if self._is_interactive else error.exit_code
            except KeyboardInterrupt as stop:
                if not self._is_interactive:
                    raise
                self._output.error(str(stop))
        if self._is_interactive and self._chain.session is not None and self._chain.session.name:
            name = self._chain.session.name
            self._output.note(f"kept as session {name}; `relaylite chat --session {name}` goes on")
        return code

    def _line(self) -> bytes:
        """The next line, b"" after the last. An invitation to type is shown on a terminal."""
        if not self._is_interactive:
            return sys.stdin.buffer.readline()
        self._output.end_line()
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.buffer.readline()
        if not line:
            print(file=sys.stderr)
        return line

    def _act(self, line: str) -> None:
        command, _, rest = line.strip().partition(" ")
        if not line.strip():
            return
        if not _COMMAND.fullmatch(line.partition(" ")[0].rstrip()):
            files, missing = attached_in(line)
            self._answer(checked(line, "the message"), files, words_without_file(missing))
        elif command in self._commands:
            self._commands[command](rest.strip())
        else:
            meant = did_you_mean(command, self._commands, f"known: {', '.join(self._commands)}.")
            raise UsageError(f"there is no {command}; {meant} A space before it sends it as a message")

    def _answer(self, message: str, files: Iterable[Attachment] = (), note: str = "") -> None:
        attached = [*self._attached, *files]
        if note:
            self._output.note(f"note: {note}")
        n_rounds = len(self._chain.rounds)
        try:
            self._show(lambda: self._chain.stream(message, files=attached))
        finally:
            if len(self._chain.rounds) > n_rounds:  # else the message was refused, and the files go with the next one
                self._attached = []

    def _show(self, start: Callable[[], Iterable[Event]]) -> None:
        try:
            for event in events_of(self._chain, start):
                self._narrator.show(event)
        finally:
            self._output.end_line()

    def _help(self, _: str) -> None:
        self._output.note(HELP)

    def _retry(self, _: str) -> None:
        self._chain.retry(0)
        self._show(self._chain.resume)

    def _undo(self, _: str) -> None:
        self._chain.change(Conversation.undo)
        self._say_where()

    def _redo(self, _: str) -> None:
        self._chain.change(Conversation.redo)
        self._say_where()

    def _say_where(self) -> None:
        """What the conversation ends with now; the rest was on the screen before."""
        rounds = self._chain.rounds
        said = [words for round in rounds for words in (round.task, *(turn.text for turn in round.turns))]
        self._output.note(f"the conversation ends with: {one_line(said[-1], 60)}" if said else "the conversation is empty")

    def _continue(self, _: str) -> None:
        rounds = self._chain.rounds
        if not rounds or not rounds[-1].turns:
            raise UsageError("there is no answer to go on with yet")
        self._show(lambda: self._chain.extend(len(rounds) - 1, len(rounds[-1].turns) - 1))

    def _name(self, name: str) -> None:
        session = self._chain.session
        if session is None:
            raise UsageError("this conversation is not kept; `relaylite chat --session NAME` keeps one")
        if name:
            session.rename(name)
        self._output.note(f"session {session.name}" if session.name else "this session gets a name from its first message")

    def _compare(self, name: str) -> None:
        rounds = self._chain.rounds
        if not rounds or not rounds[-1].turns:
            raise UsageError("there is no answer to compare yet")
        place, policy = (len(rounds) - 1, len(rounds[-1].turns) - 1), parse_policy(name or "full")
        found: list[Comparison] = []

        def work(post: Callable[[Event], None]) -> None:
            found.append(self._chain.compare(*place, policy, post))

        for event in Work(work, self._chain.cancel, lambda: "stopped; the conversation is as it was"):
            if isinstance(event, TextDelta):
                self._output.status(f"{policy.label} writes … {event.n_tokens} tokens")
        self._output.status("")
        for line in comparison_lines(found[0]):
            self._output.line(line)

    def _policy(self, name: str) -> None:
        if name:
            self._chain.policy = name
        self._output.note(f"policy {self._chain.policy.label}")

    def _quit(self, _: str) -> None:
        self._has_ended = True


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UsageError("a line of standard input is not UTF-8 text; convert it first") from error
