"""`ChatTemplate`: a model's chat template, applied to messages. It gives pieces: the template's own text, and parts of message bodies.

The template is rendered with marks in place of bodies and split at the marks, so body text can never pass for template text. What it
does to bodies (it trims them, drops thoughts) is read off the marks that are missing and off a second rendering with the texts. It knows
no tokens; `builder.py` turns pieces into tokens.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import chain, count

from relaylite.errors import UsageError
from relaylite.paths import expanded, read_whole
from relaylite.prompt.alignment import align
from relaylite.prompt.outline import PLACE, Landmarks, PromptPiece, join
from relaylite.prompt.sandbox import Sandbox, TemplateTimeout

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_USE_CHATML = "use --chat-template chatml, or --chat-template FILE with a Jinja template"
_NOBODY = "nobody"  # a role that no template knows
_SANDBOX = Sandbox()

Said = tuple[str, str]  # role, text


@dataclass(frozen=True, slots=True)
class _Skeleton:
    """What a template writes around fragments: `texts[0]`, fragment number `slots[0]`, `texts[1]`, …, `texts[-1]`; or why it refuses."""

    texts: tuple[str, ...] = ("",)
    slots: tuple[int, ...] = ()
    is_whole: bool = True  # every fragment is in it
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
        return read_whole(expanded(requested), may_be_pipe=True).decode("utf-8-sig")
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
            self._template = _SANDBOX.from_string(source)
        except Exception as error:  # Jinja's errors, and whatever Python's compiler says of what Jinja made of the template
            raise UsageError(f"the chat template is not valid ({_one_line(error)}); {_USE_CHATML}") from error
        self._nonce = str(random.SystemRandom().randrange(10**23, 10**24))
        self._marks = re.compile(rf"{self._nonce}(\d{{6}})")  # digits survive whatever a template does to letters and white space
        self._landmarks = Landmarks(source)
        self._skeleton = lru_cache(maxsize=256)(self._make_skeleton)

    def render(self, messages: Sequence[Said]) -> str:
        """The text for `messages` and the start of an answer, as llama.cpp and Hugging Face write it. Raises UsageError on a refusal."""
        try:
            return self._render(messages, {}, as_list=self._wants_lists)
        except Exception as error:  # a template can make Python raise anything
            raise _refused(_one_line(error)) from error

    def refusal(self, roles: Sequence[str]) -> str:
        """Why it does not take messages of these roles in this order, in one line; "" if it does."""
        return self._current_skeleton(tuple((role, PLACE) for role in roles)).refusal

    def drops(self, roles: Sequence[str]) -> bool:
        """Whether it leaves out messages where their roles are in this order."""
        return not self._current_skeleton(tuple((role, PLACE) for role in roles)).is_whole

    def confuses(self, roles: Sequence[str]) -> bool:
        """Whether it knows no tools, but writes what one gave all the same: as it writes what a role says that it has never heard of."""
        given, by_nobody = (
            self._current_skeleton(tuple((name if role == "tool" else role, PLACE) for role in roles)) for name in ("tool", _NOBODY)
        )
        return "tool" in roles and given.texts == by_nobody.texts

    def pieces(self, messages: Sequence[Said]) -> tuple[PromptPiece, ...]:
        """What it writes for `messages` and the start of an answer. Raises UsageError on a refusal.

        Joined, the pieces are the text of `render`; only a fragment that the template rewrites (does not merely trim) stands as it is.
        """
        bodies = [text for _, text in messages]
        forms, fragments_of = zip(*(self._landmarks.outline(i, text) for i, text in enumerate(bodies)), strict=True) if bodies else ((), ())
        skeleton = self._current_skeleton(tuple((role, form) for (role, _), form in zip(messages, forms, strict=True)))
        if skeleton.refusal:
            raise _refused(skeleton.refusal)
        fragments = list(chain.from_iterable(fragments_of))
        placed = [fragments[slot] for slot in skeleton.slots]
        texts = [bodies[fragment.body][fragment.start : fragment.end] for fragment in placed]
        kept = align(skeleton.texts, texts, self.render(messages))
        return join(skeleton.texts, placed, kept, bodies)

    @cached_property
    def _wants_lists(self) -> bool:
        """Whether content must be a list of typed parts: as a text it is refused or left out, as a list it is not, nor printed raw."""
        as_text, as_list = (self._make_skeleton((("user", PLACE),), as_list=as_list) for as_list in (False, True))
        if as_text.is_whole and not as_text.refusal:
            return False
        return as_list.is_whole and not as_list.refusal and not any("'type'" in text for text in as_list.texts)

    def _current_skeleton(self, forms: tuple[Said, ...]) -> _Skeleton:
        """From the cache, unless a date in it has passed."""
        skeleton = self._skeleton(forms, as_list=self._wants_lists)
        if any(datetime.now().strftime(form) != text for form, text in skeleton.clock.items()):
            self._skeleton.cache_clear()
            skeleton = self._skeleton(forms, as_list=self._wants_lists)
        return skeleton

    def _make_skeleton(self, forms: tuple[Said, ...], *, as_list: bool) -> _Skeleton:
        clock: dict[str, str] = {}
        numbers = count()
        marked = [(role, re.sub(PLACE, lambda _: f"{self._nonce}{next(numbers):06d}", form)) for role, form in forms]
        try:
            text = self._render(marked, clock, as_list=as_list)
        except TemplateTimeout as error:
            raise _refused(_one_line(error)) from error
        except Exception as error:  # a template can make Python raise anything
            return _Skeleton(refusal=_one_line(error), clock=clock)
        texts_and_slots = self._marks.split(text)
        texts, slots = tuple(texts_and_slots[::2]), tuple(map(int, texts_and_slots[1::2]))
        if any(self._nonce[:8] in text for text in texts):
            return _Skeleton(refusal="it takes message texts apart", clock=clock)
        return _Skeleton(texts, slots, len(set(slots)) == next(numbers), clock)

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
        return _SANDBOX.render(self._template, variables)


def _refused(reason: str) -> UsageError:
    return UsageError(f"the chat template cannot write this conversation: {reason}; {_USE_CHATML}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
