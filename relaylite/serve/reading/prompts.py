"""`read_prompts`: the raw prompts of the completion routes, as texts or as token ids."""

from __future__ import annotations

from relaylite.serve.fields import Fields
from relaylite.serve.interface import CompletionsLike

MAX_PROMPTS = 128
WANTED = "must be a text, a list of token ids, or a list of those"

Prompt = str | tuple[int, ...]


def read_prompts(body: Fields, completions: CompletionsLike, *, parses_special: bool) -> list[Prompt]:
    """One or several. A list that mixes texts and ids is one prompt, as llama-server takes it."""
    value = body.raw("prompt")
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not value:
        raise body.refuse("prompt", WANTED)
    if any(isinstance(item, list) for item in value) or all(isinstance(item, str) for item in value):
        prompts = [_prompt(body, item, completions, parses_special) for item in value]
    else:
        prompts = [_prompt(body, value, completions, parses_special)]
    if len(prompts) > MAX_PROMPTS:
        raise body.refuse("prompt", f"must be at most {MAX_PROMPTS} prompts")
    return prompts


def _prompt(body: Fields, value: object, completions: CompletionsLike, parses_special: bool) -> Prompt:
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise body.refuse("prompt", WANTED)
    tokens: list[int] = []
    for item in value:
        tokens += completions.tokenize(item, parse_special=parses_special) if isinstance(item, str) else [_id(body, item, completions)]
    return tuple(tokens)


def _id(body: Fields, item: object, completions: CompletionsLike) -> int:
    if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item < (completions.info.n_vocab or 2**31):
        raise body.refuse("prompt", WANTED)
    return item
