"""Every command of the main screen, once: its keys, its name in the palette, its line in the key help.

Keys avoid what terminals take or cannot tell apart: Ctrl+I is Tab, Ctrl+M Enter, Ctrl+H Backspace, Ctrl+S and Ctrl+Q flow control,
Ctrl+Z suspend, Ctrl+B and Ctrl+A the prefixes of tmux and screen, and Ctrl+letters that edit a line in the input.
`tui.keys` in the settings replaces a key by the command's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from textual.binding import Binding
from textual.keys import Keys

from relaylite.errors import UsageError

QUIT_WORDS = ("/quit", "/exit", "/q")
MODIFIERS = {"ctrl", "shift", "alt", "meta", "super", "hyper"}


@dataclass(frozen=True, slots=True)
class Command:
    """`name` is what the settings and `screens/main/acts.py` know it by; `footer` is the short name in the footer, "" to leave it out."""

    name: str
    title: str
    about: str
    keys: str = ""
    footer: str = ""

    @property
    def binding(self) -> Binding:
        return Binding(self.keys, self.action, self.footer or self.title, bool(self.footer), priority=True, id=self.name)

    @property
    def action(self) -> str:
        """What Textual runs for it, on the main screen."""
        return f"command({self.name!r})"

    def key(self, replaced: Mapping[str, str]) -> str:
        """The key as people write it, "" for none; `replaced`: keys by name, as in the settings."""
        return key_name(replaced.get(self.name, self.keys)) if self.keys else ""


COMMANDS = (
    Command("cancel", "Stop", "Stop the agent that works, keeping what it wrote; else go back to the input", "escape"),
    Command("help", "Keys", "All keys and what they do", "f1", "Help"),
    Command("toggle_panel", "Figures", "Show or hide metrics, map and history beside the transcript", "f2", "Figures"),
    Command("cell_map", "Cell map", "What became of every layer and token of the last prompt", "f3", "Map"),
    Command("agents", "Agents", "Add, remove, reorder and edit the agents; where to pause", "f4", "Agents"),
    Command("policy", "Policy", "How much is reused, and how carefully it is repaired", "f5", "Policy"),
    Command("sampling", "Sampling", "Temperature, max tokens and seed of all agents; F4 has those of one"),
    Command("measure", "Measure a full prefill", "Prefill the last prompt without reuse and compare its time to first token", "f6"),
    Command("compare", "Compare with another policy", "Let the last answer be written under another policy too, and show both"),
    Command("model", "Model", "Choose a model from the catalogue or open a file", "ctrl+l", "Model"),
    Command("retry", "Retry", "Let the last agent answer again", "ctrl+r"),
    Command("retry_round", "Retry the whole round", "Let every agent answer the last message again"),
    Command("edit_message", "Edit the last message", "Take the last message back into the input", "f8"),
    Command("edit_answer", "Correct the last answer", "Change an agent's text before the next one reads it", "f9"),
    Command("copy_answer", "Copy the last answer", "Put the last answer on the clipboard", "ctrl+t"),
    Command("copy_code", "Copy code", "Put a code block of the last answer on the clipboard"),
    Command("write_code", "Write code to a file", "Write a code block of the last answer; shows what changes in a file that is there"),
    Command("editor", "Open $EDITOR", "Write the message in your own editor", "ctrl+g"),
    Command("search", "Search", "Find text in the conversation", "ctrl+f"),
    Command("undo", "Undo", "Take back the last retry, correction or message that was taken back", "f7"),
    Command("redo", "Redo", "Take the last undo back", "shift+f7"),
    Command("extend", "Go on with the last answer", "Let an answer go on that was cut at max tokens, or stopped"),
    Command("new", "New conversation", "Begin another one with the same agents; this one stays in the list", "ctrl+n"),
    Command("sessions", "Conversations", "Open, rename, remove and search the conversations that were kept", "f10"),
    Command("rename", "Name this conversation", "Change the name that it is kept under"),
    Command("save", "Save conversation", "Write the conversation to a JSON file"),
    Command("load", "Load conversation", "Go on with a conversation from a JSON file, in a session of its own", "ctrl+o"),
    Command("export", "Export Markdown", "Write the conversation to a Markdown file"),
    Command("settings", "Settings", "Every setting, its value, and where it comes from"),
    Command("screenshot", "Screenshot", "Save a picture of the screen as SVG"),
)


def check_keys(replaced: Mapping[str, object]) -> None:
    """Raise UsageError for keys in the settings that name no command, or are no keys, or would keep a letter from being typed."""
    names = [command.name for command in COMMANDS if command.keys]
    for name, keys in replaced.items():
        if name not in names:
            raise UsageError(f"[tui.keys] names no command {name!r}; there are: {', '.join(names)}")
        for key in keys.split(",") if isinstance(keys, str) else [""]:
            if not _is_key(key.strip()):
                raise UsageError(f'[tui.keys] {name} = {keys!r} is no key that a command can have; write it as "ctrl+x" or "f7"')
    taken = {command.name: str(replaced.get(command.name, command.keys)) for command in COMMANDS if command.keys}
    by_key: dict[str, str] = {}
    for name, keys in taken.items():
        for key in keys.split(","):
            if (other := by_key.setdefault(key.strip(), name)) != name:
                raise UsageError(f"[tui.keys] gives {key.strip()} to {other} and to {name}")


def _is_key(key: str) -> bool:
    *modifiers, last = key.split("+")
    is_letter = len(last) == 1 and last.isprintable()
    is_named = last in {each.value for each in Keys} and "+" not in last
    return set(modifiers) <= MODIFIERS and (is_named or (is_letter and bool(set(modifiers) - {"shift"})))


def key_name(keys: str) -> str:
    """`ctrl+r` as people write it."""
    return "+".join(part.capitalize() for part in keys.split(",")[0].replace("escape", "esc").split("+"))


def in_place_of(word: str, replaced: Mapping[str, str]) -> str:
    """What to do here instead of sending `word`, which looks like another program's command: `/policy`."""
    command = next((command for command in COMMANDS if command.name == word.removeprefix("/").lower()), None)
    if word.lower() in QUIT_WORDS:
        advice = f"{word} is Ctrl+Q here."
    elif command is None:
        advice = f"There is no {word} here: Ctrl+P lists the commands, F1 their keys."
    elif key := command.key(replaced):
        advice = f"{word} is {key} here."
    else:
        advice = f"{word} is “{command.title}” here, which Ctrl+P lists."
    return f"{advice} A space before it sends it as a message."
