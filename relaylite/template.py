"""`ChatTemplate`: what a model's chat template makes of messages, as pieces: its own text, and where it put which message body.

The template is rendered with a mark in place of each body and split at the marks; so body text can never pass for template text. What
the template does to the bodies themselves (trims them, drops thoughts) is read off a second rendering with the real texts.
It knows no tokens; `prompt.py` turns pieces into tokens.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from relaylite.alignment import Range, align
from relaylite.errors import UsageError
from relaylite.sandbox import Sandbox, TemplateTimeout, render_template

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_USE_CHATML = "use --chat-template chatml, or --chat-template FILE with a Jinja template"
_ENVIRONMENT = Sandbox()

Said = tuple[str, str]  # role, text


@dataclass(frozen=True, slots=True)
class Piece:
    """Template text (`body` is None), or the characters `[start, end)` of the text of message number `body`."""

    text: str
    body: int | None = None
    start: int = 0
    end: int = 0


class _Outline(NamedTuple):
    """What the template sees of a message when it is rendered with marks: a text that is blank stands as it is."""

    role: str
    switches: str = ""
    blank: str | None = None


@dataclass(frozen=True, slots=True)
class _Skeleton:
    """What a template writes around bodies: `texts[0]`, body `slots[0]`, `texts[1]`, …, `texts[-1]`; or why it refuses."""

    texts: tuple[str, ...] = ("",)
    slots: tuple[int, ...] = ()
    dropped: frozenset[int] = frozenset()  # bodies that it leaves out
    clock: dict[str, str] = field(default_factory=dict)  # what it asked the clock for, and the answer
    refusal: str = ""


def read_template(requested: str, of_model: str) -> str:
    """The source of the template to use: `requested` is "" for the model's own, "chatml", or the path of a file.

    Raises UsageError if the file cannot be read. A model without a template gives "", which ChatTemplate refuses.
    """
    if requested == "chatml":
        return CHATML
    if not requested:
        return of_model
    try:
        return Path(requested).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the chat template {requested!r} ({_one_line(error)}); {_USE_CHATML}") from error


class ChatTemplate:
    """A compiled chat template. What it writes around bodies is kept per order of roles, so that a known order costs one rendering.

    `bos_text` and `eos_text` are what the template may print as `bos_token` and `eos_token`.
    Raises UsageError if `source` is empty or no valid template. May be used by several threads.
    """

    def __init__(self, source: str, *, bos_text: str = "", eos_text: str = "") -> None:
        if not source.strip():
            raise UsageError(f"this model has no chat template; {_USE_CHATML}")
        self.source, self.bos_text, self.eos_text = source, bos_text, eos_text
        try:
            self._template = _ENVIRONMENT.from_string(source)
        except Exception as error:  # Jinja's errors, and whatever Python's compiler says of what Jinja made of the template
            raise UsageError(f"the chat template is not valid ({_one_line(error)}); {_USE_CHATML}") from error
        self._nonce = str(random.SystemRandom().randrange(10**23, 10**24))
        self._marks = re.compile(rf"{self._nonce}(\d{{6}})1.*?{self._nonce}(?:\1)2", re.DOTALL)
        self._skeleton = lru_cache(maxsize=256)(self._make_skeleton)

    def render(self, messages: Sequence[Said]) -> str:
        """The text for `messages` and the start of an answer, as llama.cpp and Hugging Face write it. Raises UsageError on a refusal."""
        try:
            return self._render(messages, {}, as_list=self._wants_lists)
        except Exception as error:  # a template can make Python raise anything
            raise _refused(_one_line(error)) from error

    def refusal(self, roles: Sequence[str]) -> str:
        """Why it does not take messages of these roles in this order, in one line; "" if it does."""
        return self._current_skeleton(tuple(map(_Outline, roles))).refusal

    def drops(self, roles: Sequence[str]) -> bool:
        """Whether it leaves out messages where their roles are in this order."""
        return bool(self._current_skeleton(tuple(map(_Outline, roles))).dropped)

    def pieces(self, messages: Sequence[Said]) -> tuple[Piece, ...]:
        """What it writes for `messages` and the start of an answer. Raises UsageError on a refusal.

        Joined, the pieces are the text of `render`; only a body that the template rewrites (does not merely shorten) stands as it is.
        """
        bodies = [text for _, text in messages]
        skeleton = self._current_skeleton(tuple(self._outline(role, text) for role, text in messages))
        if skeleton.refusal:
            raise _refused(skeleton.refusal)
        kept: list[list[Range]] = [[(0, len(bodies[slot]))] for slot in skeleton.slots]
        rendered = self.render(messages)
        if rendered != "".join(piece.text for piece in _pieces(skeleton, bodies, kept)):
            kept = align(skeleton.texts, [bodies[slot] for slot in skeleton.slots], rendered) or kept
        return tuple(_pieces(skeleton, bodies, kept))

    @cached_property
    def _wants_lists(self) -> bool:
        """Whether content must be a list of typed parts: as a text it is refused or left out, as a list it is not, nor printed raw."""
        as_text, as_list = (self._make_skeleton((_Outline("user"),), as_list=as_list) for as_list in (False, True))
        if not (as_text.refusal or as_text.dropped):
            return False
        return not (as_list.refusal or as_list.dropped or any("'type'" in text for text in as_list.texts))

    def _outline(self, role: str, text: str) -> _Outline:
        """Words such as `/no_think` that the template looks for change what it writes around bodies, so the marks hold them too."""
        if not text.strip():
            return _Outline(role, blank=text)
        words = re.findall(r"(?<!\S)/[a-z_]+(?!\S)", text) if "/" in text else ()
        return _Outline(role, " ".join(word for word in dict.fromkeys(words) if word in self.source))

    def _current_skeleton(self, outlines: tuple[_Outline, ...]) -> _Skeleton:
        """From the cache, unless a date in it has passed."""
        skeleton = self._skeleton(outlines, as_list=self._wants_lists)
        if any(datetime.now().strftime(form) != text for form, text in skeleton.clock.items()):
            self._skeleton.cache_clear()
            skeleton = self._skeleton(outlines, as_list=self._wants_lists)
        return skeleton

    def _make_skeleton(self, outlines: tuple[_Outline, ...], *, as_list: bool) -> _Skeleton:
        clock: dict[str, str] = {}
        try:
            text = self._render([(o.role, self._mark(i, o)) for i, o in enumerate(outlines)], clock, as_list=as_list)
        except TemplateTimeout as error:
            raise _refused(_one_line(error)) from error
        except Exception as error:  # a template can make Python raise anything
            return _Skeleton(refusal=_one_line(error), clock=clock)
        texts_and_slots = self._marks.split(text)
        texts, slots = tuple(texts_and_slots[::2]), tuple(map(int, texts_and_slots[1::2]))
        if any(self._nonce[:8] in text for text in texts):
            return _Skeleton(refusal="it takes message texts apart", clock=clock)
        dropped = {i for i, outline in enumerate(outlines) if outline.blank is None}.difference(slots)
        return _Skeleton(texts, slots, frozenset(dropped), clock)

    def _mark(self, i: int, outline: _Outline) -> str:
        """Digits survive whatever a template does to letters and white space."""
        opening, closing = f"{self._nonce}{i:06d}1", f"{self._nonce}{i:06d}2"
        return outline.blank if outline.blank is not None else f"{opening} {outline.switches} {closing}"

    def _render(self, messages: Sequence[Said], clock: dict[str, str], *, as_list: bool) -> str:
        def strftime_now(form: str) -> str:
            return clock.setdefault(form, datetime.now().strftime(form))

        contents = [[{"type": "text", "text": text}] if as_list else text for _, text in messages]
        variables = {
            "messages": [{"role": role, "content": content} for (role, _), content in zip(messages, contents, strict=True)],
            "add_generation_prompt": True,
            "bos_token": self.bos_text,
            "eos_token": self.eos_text,
            "strftime_now": strftime_now,
        }
        return render_template(self._template, variables)


def _pieces(skeleton: _Skeleton, bodies: Sequence[str], kept: Sequence[Sequence[Range]]) -> list[Piece]:
    pieces = [Piece(skeleton.texts[0])]
    for slot, ranges, text in zip(skeleton.slots, kept, skeleton.texts[1:], strict=True):
        pieces += [Piece(bodies[slot][start:end], slot, start, end) for start, end in ranges]
        pieces.append(Piece(text))
    return [piece for piece in pieces if piece.text]


def _refused(reason: str) -> UsageError:
    return UsageError(f"the chat template cannot write this conversation: {reason}; {_USE_CHATML}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
