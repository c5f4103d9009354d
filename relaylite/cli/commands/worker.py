"""`relaylite worker`: holds layers of models for relaylite on other machines, by llama.cpp's RPC backend."""

from __future__ import annotations

import ipaddress
import signal
import socket

import click

from relaylite.cli.command import Command
from relaylite.cli.interrupts import ending_signals
from relaylite.cli.terminal import Output
from relaylite.errors import RelayliteError, UsageError
from relaylite.machine.resources import physical_cores

DEFAULT_PORT = 50052
HOST = "The address of this machine to listen at; 0.0.0.0 is all of its addresses."


@click.command("worker", cls=Command, examples=("relaylite worker", "relaylite worker --host 192.168.1.20 --port 50052"))
@click.option("--host", default="127.0.0.1", show_default=True, metavar="IPV4", help=HOST)
@click.option("--port", type=click.IntRange(1, 65535), default=DEFAULT_PORT, show_default=True, metavar="N", help="The port to listen at.")
@click.option("--threads", type=click.IntRange(1, 512), metavar="N", help="CPU threads; one for each core by default.")
def command(host: str, port: int, threads: int | None) -> None:
    """Hold layers of models for relaylite on other machines, until Ctrl-C.

    The other machine names this one with --rpc. It gets the graphics cards here, or the CPU if there are none. One client is served at
    a time.
    """
    from relaylite.engine import llama
    from relaylite.machine import devices, workers

    if not devices.has_rpc():
        raise UsageError(workers.NOT_BUILT)
    output = Output()
    if not _checked(host).is_loopback:
        output.note(workers.WARNING)
    _check_free(host, port)
    llama.start()
    output.note(f"serving at {host}:{port}; on the other machine: relaylite run --rpc {host}:{port} …; Ctrl-C ends")
    for number in (signal.SIGINT, *ending_signals()):  # the call below does not come back to Python
        signal.signal(number, signal.SIG_DFL)
    devices.serve(f"{host}:{port}", threads or physical_cores())
    raise RelayliteError(f"llama.cpp could not serve at {host}:{port}")


def _checked(host: str) -> ipaddress.IPv4Address:
    try:
        return ipaddress.IPv4Address(host)
    except ValueError as error:
        raise UsageError(f"--host must be an IPv4 address of this machine in numbers, not {host!r}") from error


def _check_free(host: str, port: int) -> None:
    """llama.cpp does not say why it cannot listen."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as place:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            place.bind((host, port))
        except OSError as error:
            raise UsageError(f"cannot listen at {host}:{port}: {error.strerror}; give another --port or --host") from error
