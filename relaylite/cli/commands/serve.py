"""`relaylite serve`: one model for clients of OpenAI's, Anthropic's and llama-server's HTTP interfaces."""

from __future__ import annotations

import ipaddress
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from relaylite.cli import options
from relaylite.cli.command import Command
from relaylite.cli.interrupts import Work
from relaylite.cli.opening import open_relay
from relaylite.cli.terminal import Output
from relaylite.errors import UsageError
from relaylite.reuse.policies import parse_policy
from relaylite.sampling import Sampling
from relaylite.settings.settings import Settings

if TYPE_CHECKING:
    from relaylite.serve.server import Server
    from relaylite.serve.service import Service

DEFAULT_PORT = 8080
MISSING = "relaylite serve needs packages that are not installed: pip install 'relaylite[serve]'"
OPEN_TO_ALL = "anyone who reaches this machine can use the model: give --api-key as well"
HOST = "Address to listen at; 0.0.0.0 is all of this machine's."
KEY = "Key that clients must send; several with commas between. Other users of this machine can see it: a file is safer."
NAME = "One more name of this machine that clients may use; may be given several times."
EXAMPLES = (
    "relaylite serve --model qwen3-4b --ctx 16384",
    "relaylite serve --parallel 8 --policy relay:careful",
    "relaylite serve --host 0.0.0.0 --api-key-file keys.txt",
)


@click.command("serve", cls=Command, examples=EXAMPLES)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help=HOST)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, metavar="N", help="Port; 0 takes a free one."
)
@click.option("--parallel", type=click.IntRange(1, 64), metavar="N", help="Requests that run at the same time, in turns; others wait.")
@click.option("--api-key", metavar="KEY,…", help=KEY)
@click.option("--api-key-file", type=click.Path(path_type=Path), metavar="FILE", help="File with such keys, one a line.")
@click.option("--cors", multiple=True, metavar="ORIGIN", help="Web page that may use the server, such as https://chat.example; * is any.")
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help=NAME)
@options.setting_options("policy", "fidelity", "max_tokens", "temperature", "seed", *options.MODEL)
@options.talk_options
def command(
    host: str,
    port: int,
    parallel: int | None,
    api_key: str | None,
    api_key_file: Path | None,
    cors: tuple[str, ...],
    names: tuple[str, ...],
    settings: Settings,
    quiet: bool,
    verbose: bool,
) -> None:
    """Serve one model over HTTP until Ctrl-C.

    Programs that use OpenAI's interface work with http://HOST:PORT/v1. What was read or written in earlier requests is taken over.
    A page at http://HOST:PORT shows that live. docs/serve.md says more.
    """
    try:
        from relaylite.serve.app import create_app
        from relaylite.serve.keys import Keys
        from relaylite.serve.origins import Origins
        from relaylite.serve.server import Server, listening
        from relaylite.serve.service import Service
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("relaylite"):
            raise
        raise UsageError(MISSING) from error

    output = Output(quiet=quiet)
    keys = _keys(api_key, api_key_file)
    service = Service(policy=parse_policy(settings.policy, settings.fidelity), sampling=_sampling(settings), keys=Keys(keys))
    server = Server(create_app(service, Origins(host, cors, names)), listening(host, port), service.close)
    if not _is_loopback(host) and not keys:
        output.notice(OPEN_TO_ALL)
    _log_defects()
    server.start()
    try:
        _serve(server, service, settings, parallel, output, f"http://{_shown(host)}:{server.port}", verbose=verbose)
    finally:
        server.stop()
        server.wait()


def _serve(server: Server, service: Service, settings: Settings, parallel: int | None, output: Output, url: str, *, verbose: bool) -> None:
    """Load the model while the server says that it loads; then serve, until a signal comes."""
    more = {} if parallel is None else {"n_parallel": parallel}
    with open_relay(settings, output, verbose=verbose, **more) as relay:
        service.open(relay.completions)
        for warning in relay.info.warnings:
            output.notice(warning)
        output.note(f"serving {relay.info.name} at {url}/v1, with a page at {url}; Ctrl-C ends")
        for _ in Work[None](lambda _: server.wait(), cancel=server.stop, kept=lambda: "stopped serving"):
            pass


def _sampling(settings: Settings) -> Sampling:
    """Where nothing is set, an answer may be as long as the context allows."""
    sampling = settings.sampling()
    return Sampling(**{**sampling, "max_tokens": settings.max_tokens if "max_tokens" in settings.sources else -1})


def _keys(given: str | None, file: Path | None) -> list[str]:
    lines = file.read_text(encoding="utf-8").splitlines() if file else []
    keys = [key.strip() for key in [*(given or "").split(","), *lines] if key.strip()]
    if (given is not None or file is not None) and not keys:
        raise UsageError("--api-key and --api-key-file must give at least one key")
    if not all(key.isascii() and key.isprintable() for key in keys):
        raise UsageError("an API key may have printable ASCII characters only")
    return keys


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _shown(host: str) -> str:
    """The host as it stands in an address that can be opened here."""
    if host in ("0.0.0.0", "::", ""):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _log_defects() -> None:
    """Tracebacks of requests that failed inside go to stderr; the client only learns that it was a defect."""
    logger = logging.getLogger("relaylite.serve")
    logger.handlers = [logging.StreamHandler(sys.stderr)]
    logger.setLevel(logging.WARNING)
    logger.propagate = False
