"""`CompletionRequest`: what one answer is asked for. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from relaylite.engine.interface import check_n_logprobs
from relaylite.errors import UsageError
from relaylite.reuse.policies import RELAY, Policy
from relaylite.sampling import Sampling

ChatRole = Literal["system", "user", "assistant", "tool"]
MAX_CHOICES = 128


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation as plain text. Nothing in `text` becomes a control token, whatever it says."""

    role: ChatRole
    text: str


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """An answer to `messages`, or text that goes on from `prompt`; exactly one of them is given.

    - `messages`: in any order of roles; what the chat template does not take is folded. If the last one is the assistant's, it is gone on
      with.
    - `prompt`: a text, or token ids, taken as they are. With `parses_special`, names of control tokens in the text become those tokens.
    - `policy`: what may be taken over, and how it is repaired.
    - `scope`: rows are shared only among requests of one scope, such as a tenant.
    - `n`: so many answers, one after the other; answer `i` is sampled with `sampling.seed + i`.
    - `n_logprobs`: report the log probability of each token, and of so many likeliest others; None reports none.
    - `id`: what later answers name as the source of text that they took over from this one.

    Raises UsageError if a value is out of range.
    """

    messages: tuple[ChatMessage, ...] = ()
    prompt: str | tuple[int, ...] | None = None
    parses_special: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    policy: Policy = RELAY
    scope: str = ""
    n: int = 1
    n_logprobs: int | None = None
    id: str = ""

    def __post_init__(self) -> None:
        if bool(self.messages) == (self.prompt is not None):
            raise UsageError("give messages or a prompt, one of them")
        if not 1 <= self.n <= MAX_CHOICES:
            raise UsageError(f"n must be a whole number from 1 to {MAX_CHOICES}, not {self.n!r}")
        check_n_logprobs(self.n_logprobs)
