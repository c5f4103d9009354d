"""`Origins`: which web pages, and which names of this machine, may be used to reach the server.

A page from elsewhere is told apart by its `Origin`; a page whose domain was made to point here (DNS rebinding) by the `Host` that its
requests carry.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

ANY = "*"


class Origins:
    """`host`: where the server listens. `cors`: origins of pages that may use it, `*` for all. `names`: more names of this machine."""

    def __init__(self, host: str, cors: Iterable[str] = (), names: Iterable[str] = ()) -> None:
        self._cors = {origin.rstrip("/").lower() for origin in cors}
        machine = socket.gethostname().lower()
        self._names = {"localhost", host.lower(), machine, f"{machine}.local", *(name.lower() for name in names)}

    def knows_host(self, header: str) -> bool:
        """An address in numbers cannot be made to point elsewhere; any other name must be one of this machine's."""
        name = _host_of(header)
        return name in self._names or name.endswith(".localhost") or ANY in self._names or _is_address(name)

    def knows_origin(self, origin: str, host: str) -> bool:
        """The server's own page, or one that was allowed."""
        return self.allows(origin) or origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")

    def allows(self, origin: str) -> bool:
        """Whether a page from this origin gets to read the answers."""
        return ANY in self._cors or origin.lower() in self._cors


def _host_of(header: str) -> str:
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
