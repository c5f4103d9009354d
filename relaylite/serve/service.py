"""`Service`: the model behind the routes, once it is loaded, and what requests use unless they say otherwise."""

from __future__ import annotations

import time
from collections import OrderedDict

from starlette.requests import Request

from relaylite.completion.overview import RequestState
from relaylite.reuse.policies import RELAY, Policy
from relaylite.sampling import Sampling
from relaylite.serve.errors import ApiError
from relaylite.serve.interface import CompletionsLike
from relaylite.serve.keys import Keys

REMEMBERED = 1000  # whose request it was, for the last ones


class Service:
    """Used in the event loop only, but for `open`, which may come from another thread.

    `policy` and `sampling` are those of requests that name none.
    """

    def __init__(self, *, policy: Policy = RELAY, sampling: Sampling | None = None, keys: Keys | None = None) -> None:
        self.policy, self.sampling, self.keys = policy, sampling or Sampling(max_tokens=-1), keys or Keys()
        self.started_at = int(time.time())
        self._completions: CompletionsLike | None = None
        self._tenants: OrderedDict[str, str] = OrderedDict()

    def open(self, completions: CompletionsLike) -> None:
        """The model is loaded: from now on requests are answered."""
        self._completions = completions

    @property
    def completions(self) -> CompletionsLike:
        if self._completions is None:
            raise ApiError(503, "Loading model")
        return self._completions

    @property
    def model(self) -> str:
        return self.completions.info.name

    def remember(self, id: str, tenant: str) -> None:
        self._tenants[id] = tenant
        if len(self._tenants) > REMEMBERED:
            self._tenants.popitem(last=False)

    def requests_of(self, request: Request) -> list[RequestState]:
        """The requests that whoever asks may see: those made with the same key."""
        tenant = self.keys.tenant_of(request.headers)
        return [each for each in self.completions.overview().requests if not tenant or self._tenants.get(each.id) == tenant]


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service
