"""Workers: processes, here or on other machines, that hold layers of a model and compute them for llama.cpp's RPC backend.

ggml ends the process when a worker does not answer, so each worker is asked before ggml connects to it. A worker serves one engine at a
time, so this module notes which are lent.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence

from relaylite.errors import ModelError, UsageError
from relaylite.machine import devices
from relaylite.machine.installation import build_command
from relaylite.settings import readers

WARNING = (
    "llama.cpp's RPC has neither authentication nor encryption: whoever can reach a worker's port, or listen on the way, can read and "
    "change all that it computes; keep it inside a network that you trust"
)
NOT_BUILT = f"this llama.cpp was built without RPC: run {build_command('-DGGML_RPC=on')}, then install relaylite again"
CONNECT_S = 5.0
ANSWER_S = 5.0
LEAVE_S = 30.0  # as long as a chain waits for its run, and more

# ggml-rpc.cpp of the llama.cpp that we are built against: the first message of a connection, and the version in its answer.
_HELLO = struct.pack("<BQ24x", 14, 24)
_ANSWER = struct.Struct("<QBBBx24x")
_VERSION = (7, 0)

lost = ""  # what was said of a worker that went away and so ends this process
_lent: set[str] = set()
_lock = threading.Lock()


class Workers:
    """The workers of one engine, lent to it from open to close.

    `addresses`: `host:port` each. `devices`: addresses in memory of the workers' devices, in order, then of the graphics cards here.
    Raises UsageError if this llama.cpp has no RPC or a worker is lent already, ModelError if a worker does not answer within 10 s.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._held: set[str] = set()
        try:
            addresses = readers.addresses(tuple(addresses))
        except ValueError as error:
            raise UsageError(f"a worker {error}, not {', '.join(addresses)!r}") from error
        if not devices.has_rpc():
            raise UsageError(NOT_BUILT)
        devices.before_abort(_leave)
        try:
            for address in addresses:
                self._take(address)
                ask(address)
            self.devices = [device for address in addresses for device in devices.of_worker(address)] + devices.local_gpus()
        except BaseException:
            self.close()
            raise

    def _take(self, address: str) -> None:
        with _lock:
            if address in _lent:
                raise UsageError(f"the worker {address} serves a model of this process already; name it once, or close that model first")
            _lent.add(address)
        self._held.add(address)

    def close(self) -> None:
        """The model must be closed already."""
        with _lock:
            _lent.difference_update(self._held)
        self._held.clear()


def ask(address: str) -> None:
    """Raise ModelError in one line unless a worker at `host:port` answers and speaks this llama.cpp's version of RPC."""
    host, _, port = address.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as link:  # ggml knows IPv4 only
        link.settimeout(CONNECT_S)
        try:
            link.connect((host, int(port)))
        except OSError as error:
            reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
            raise ModelError(f"cannot reach the worker {address} ({reason}); start one there with `relaylite worker`") from error
        link.settimeout(ANSWER_S)
        try:
            link.sendall(_HELLO)
            answer = _received(link, _ANSWER.size)
        except TimeoutError as error:
            raise ModelError(f"the worker {address} does not answer: it serves another process, or is no llama.cpp worker") from error
        except OSError as error:
            raise ModelError(f"the worker {address} broke off ({error.strerror or error}); it is no llama.cpp worker") from error
    size, major, minor, patch = _ANSWER.unpack(answer) if len(answer) == _ANSWER.size else (0, 0, 0, 0)
    if size != _ANSWER.size - 8:
        raise ModelError(f"what answers at {address} is no llama.cpp worker, or one of another version; start `relaylite worker` there")
    if major != _VERSION[0] or minor > _VERSION[1]:
        theirs, ours = f"{major}.{minor}.{patch}", ".".join(map(str, _VERSION))
        raise ModelError(f"the worker {address} speaks RPC {theirs}, this llama.cpp {ours}; install the same llama-cpp-python on both")


def _leave(message: str) -> None:
    """ggml ends the process when a worker goes away, and nothing can stop that. Give the process time to end well."""
    global lost
    if "ggml-rpc" not in message:
        print(message, file=sys.stderr, flush=True)
        return
    of = f" ({', '.join(sorted(_lent))})" if _lent else ""
    lost = f"a worker{of} went away, and llama.cpp cannot go on without it; start it again, then this"
    print(f"relaylite: {lost}", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LEAVE_S)


def _received(link: socket.socket, n: int) -> bytes:
    """`n` bytes, or fewer if the other side ends there."""
    found = b""
    while len(found) < n and (more := link.recv(n - len(found))):
        found += more
    return found
