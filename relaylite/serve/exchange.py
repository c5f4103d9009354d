"""`Exchange`: the requests that one HTTP request brought, run on the model. A client that goes away cancels them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from anyio import to_thread
from starlette.requests import Request

from relaylite.completion.answer import CompletionEvent, Finished, Prefilled
from relaylite.completion.request import CompletionRequest
from relaylite.completion.ticket import Ticket
from relaylite.errors import ContextOverflow
from relaylite.serve.errors import CONTEXT_TYPE, ApiError
from relaylite.serve.interface import CompletionsLike
from relaylite.serve.service import Service

FIRST_EVENT_S = 0.2  # an error that comes within this time is a plain HTTP error, a later one an event of the stream


class ClientGone(Exception):
    """Nobody reads the answer any more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one request of the exchange came to. `answers`: in the order of their index."""

    prefilled: Prefilled
    answers: tuple[Finished, ...]


class Exchange:
    """`events` gives for each request, one after the other, its number and its events. To be read once."""

    def __init__(self, tickets: Sequence[Ticket]) -> None:
        self._tickets = tickets
        self._first: asyncio.Future[tuple[int, CompletionEvent]] | None = None
        self._rest = self._events()
        self._is_over = False

    @classmethod
    async def of(cls, service: Service, requests: Sequence[CompletionRequest], tenant: str) -> Exchange:
        """Submits all of them. Raises what the model says of one that cannot be; then none runs."""
        tickets: list[Ticket] = []
        for request in requests:
            try:
                service.remember(request.id, tenant)
                tickets.append(await to_thread.run_sync(_submitted, service.completions, request))
            except BaseException:
                for ticket in tickets:
                    ticket.cancel()
                raise
        return cls(tickets)

    async def begun(self) -> None:
        """Waits a moment for the first event. Raises what the model says if the exchange fails by then."""
        self._first = asyncio.ensure_future(_next(self._rest))
        done, _ = await asyncio.wait({self._first}, timeout=FIRST_EVENT_S)
        if done and (error := self._first.exception()):
            raise error

    async def events(self) -> AsyncIterator[tuple[int, CompletionEvent]]:
        if self._first is not None:
            yield await self._first
        async for event in self._rest:
            yield event

    async def outcomes(self, request: Request) -> list[Outcome]:
        """All answers. Raises ClientGone if the client leaves before they are complete."""
        prefilled: list[Prefilled] = []
        answers: list[list[Finished]] = []
        async with self._cancelled_without(request):
            async for _, event in self.events():
                if isinstance(event, Prefilled):
                    prefilled.append(event)
                    answers.append([])
                elif isinstance(event, Finished):
                    answers[-1].append(event)
        return [Outcome(first, tuple(each)) for first, each in zip(prefilled, answers, strict=True)]

    async def close(self) -> None:
        """Cancels what still runs."""
        if not self._is_over:
            for ticket in self._tickets:
                ticket.cancel()
        if self._first is not None and not self._first.done():
            self._first.cancel()

    async def _events(self) -> AsyncIterator[tuple[int, CompletionEvent]]:
        for number, ticket in enumerate(self._tickets):
            async for event in ticket.events_async():
                yield number, event
        self._is_over = True

    @asynccontextmanager
    async def _cancelled_without(self, request: Request) -> AsyncIterator[None]:
        gone = asyncio.create_task(_gone(request))
        gone.add_done_callback(lambda task: None if task.cancelled() else self._cancel())
        try:
            yield
        except Exception as error:
            self._cancel()
            if gone.done():
                raise ClientGone from error
            raise
        except BaseException:
            self._cancel()
            raise
        finally:
            gone.cancel()

    def _cancel(self) -> None:
        for ticket in self._tickets:
            ticket.cancel()


async def _next(events: AsyncIterator[tuple[int, CompletionEvent]]) -> tuple[int, CompletionEvent]:
    return await anext(events)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _submitted(completions: CompletionsLike, request: CompletionRequest) -> Ticket:
    try:
        return completions.submit(request)
    except ContextOverflow as error:
        counts = {"n_prompt_tokens": _prompt_tokens(completions, request), "n_ctx": completions.info.n_ctx}
        raise ApiError(400, str(error), type=CONTEXT_TYPE, details=counts) from error


def _prompt_tokens(completions: CompletionsLike, request: CompletionRequest) -> int:
    if request.prompt is None:
        return len(completions.render(request.messages)[1])
    if isinstance(request.prompt, str):
        return len(completions.tokenize(request.prompt, parse_special=request.parses_special))
    return len(request.prompt)
