"""`Tenant`: the rows and the answers that requests of one scope share. Other scopes never see them."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from relaylite.completion.request import CompletionRequest
from relaylite.engine.interface import EngineLike
from relaylite.prompt.builder import Prompt
from relaylite.prompt.known_answers import KnownAnswers, Located
from relaylite.prompt.messages import Message
from relaylite.reuse.plan import Plan
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, PREFIX, Policy
from relaylite.reuse.rows import Rows, Tokens
from relaylite.runs.runner import Runner
from relaylite.store import Scope

KINDS_OF_CLIENTS = 16  # told apart by their first message; the store learns which follows which


@dataclass(frozen=True, slots=True)
class KnownPrompt:
    """The prompt of a request, and where it quotes known answers. `n_learnt`: how many the scope had learnt by then."""

    prompt: Prompt
    located: tuple[Located, ...] = ()
    n_learnt: int = 0

    @property
    def tokens(self) -> Tokens:
        return self.prompt.tokens


class Tenant:
    """Makes prompts and plans of what this scope knows. `known`: answers of all scopes."""

    def __init__(self, scope: str, runner: Runner, known: KnownAnswers) -> None:
        self.rows = Scope(runner.store, scope)
        self.is_alone = True  # no other scope has used the engines
        self._n_learnt = 0  # answers, in this process
        self._scope, self._known, self._builder = scope, known, runner.prompt_builder
        known.learn(self.rows.answers(), runner.tokenizer.piece, scope=scope)  # of earlier processes

    def prompt(self, request: CompletionRequest) -> KnownPrompt:
        """The tokens of what was asked; known answers in it by the ids that were sampled. Raises UsageError if the template refuses it."""
        n_learnt = self._n_learnt
        if request.messages:
            splits = [self._known.split(message.text, scope=self._scope) for message in request.messages]
            messages = [Message(message.role, split.parts) for message, split in zip(request.messages, splits, strict=True)]
            located = tuple(each for split in splits for each in split.located)
            return KnownPrompt(self._builder.build(messages), located, n_learnt)
        if isinstance(request.prompt, str):
            split = self._known.split(request.prompt, scope=self._scope)
            return KnownPrompt(self._builder.plain(split.parts, parses_special=request.parses_special), split.located, n_learnt)
        return KnownPrompt(self._builder.of_ids(request.prompt or ()), (), n_learnt)

    def renewed(self, prompt: KnownPrompt, request: CompletionRequest) -> KnownPrompt:
        """The prompt of a request that waited: made again if more answers are known by now. Raises UsageError as `prompt` does."""
        return prompt if prompt.n_learnt == self._n_learnt else self.prompt(request)

    def plan(self, known: KnownPrompt, policy: Policy, engine: EngineLike) -> Plan:
        """`prefix` instead of a policy that relays, where the model cannot relay.

        States that an engine keeps itself know no scopes: they serve nobody once there are several.
        """
        runs = PREFIX if policy.use_spans and engine.info.relay_refusal else policy
        if engine.kept_states is not None and not self.is_alone:
            runs = FULL
        return make_plan(known.tokens, engine.kept_states or self.rows, runs, known.prompt.quotes)

    def remember(self, tokens: tuple[int, ...], source: str) -> None:
        """An answer that may come back as text."""
        self._known.add(tokens, self._builder.pieces(tokens), source, scope=self._scope)
        self._n_learnt += 1

    def keep(self, rows: Rows, request: CompletionRequest, n_prompt: int) -> None:
        """`n_prompt`: of the tokens, those before the answer."""
        first = request.messages[0].text if request.messages else str(request.prompt)[:64]
        agent = f"request {crc32(first.encode()) % KINDS_OF_CLIENTS}"
        self.rows.put(rows, agent=agent, answer=n_prompt if len(rows) > n_prompt else None)
