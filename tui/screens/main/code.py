"""Actions on the code in an answer: copy a block of it, write one to a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from relaylite.terminal_text import fit_for_terminal, one_line
from relaylite.tui.conversation import TurnRecord
from relaylite.tui.screens.dialog import ChoiceDialog
from relaylite.tui.screens.main import documents
from relaylite.tui.screens.main.desk import Desk
from relaylite.tui.text.markdown_lines import CodeBlock, code_blocks_of

ENDINGS = {
    "python": ".py", "py": ".py", "javascript": ".js", "js": ".js", "typescript": ".ts", "ts": ".ts", "bash": ".sh", "sh": ".sh",
    "shell": ".sh", "rust": ".rs", "go": ".go", "c": ".c", "cpp": ".cpp", "c++": ".cpp", "java": ".java", "html": ".html", "css": ".css",
    "json": ".json", "yaml": ".yaml", "toml": ".toml", "sql": ".sql", "markdown": ".md", "ruby": ".rb",
}  # fmt: skip
NAME_IN_CODE = re.compile(r"\s*(?:#|//|/\*|--|<!--)\s*([\w.-]+\.\w{1,5})\b")  # a first line such as `# merge.py`


def copy_last(desk: Desk) -> None:
    if (last := desk.state.conversation.last) is not None:
        copy(desk, last)


def write_last(desk: Desk) -> None:
    if (last := desk.state.conversation.last) is not None:
        write(desk, last)


def copy(desk: Desk, record: TurnRecord) -> None:
    """Put a code block of that answer on the clipboard."""

    def take(block: CodeBlock) -> None:
        desk.app.copy_to_clipboard(fit_for_terminal(block.code))
        desk.app.notify(f"Copied {len(block.code.splitlines()):,} lines of code.", timeout=2)

    _with_block(desk, record, "Copy which code?", take)


def write(desk: Desk, record: TurnRecord) -> None:
    """Write a code block of that answer to a file."""
    _with_block(
        desk,
        record,
        "Write which code?",
        lambda block: documents.ask_and_write(desk, "Write the code to a file", name_for(block), block.code),
    )


def name_for(block: CodeBlock) -> Path:
    """A file name for the block: the one that its first line names, else one by its language."""
    named = NAME_IN_CODE.match(block.code)
    return Path(named[1] if named else f"code{ENDINGS.get(block.language.lower(), '.txt')}")


def _with_block(desk: Desk, record: TurnRecord, title: str, then: Callable[[CodeBlock], None]) -> None:
    """Do `then` with the only code block, or with the one that the user chooses."""
    blocks = code_blocks_of(record.text)
    if not blocks:
        desk.app.notify("There is no code block in this answer.", severity="warning")
    elif len(blocks) == 1:
        then(blocks[0])
    else:
        choices = [(str(place), _title_of(block), one_line(block.code, 70)) for place, block in enumerate(blocks)]

        def take(chosen: str | None) -> None:
            if chosen is not None:
                then(blocks[int(chosen)])

        desk.app.push_screen(ChoiceDialog(title, choices, "0"), take)


def _title_of(block: CodeBlock) -> str:
    return f"{one_line(block.language, 20) or 'code'}, {len(block.code.splitlines()):,} lines"
