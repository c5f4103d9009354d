"""The options that commands share. Each is named like its setting, takes its help from there, and is checked there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from relaylite.cli.document import FLAG, Document
from relaylite.settings import settings
from relaylite.settings.settings import load_settings

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_ABOUT = {name: about for name, about, _ in settings.describe()}
_SHORT = {"model": "-m", "agents": "-a", "policy": "-p", "max_tokens": "-n", "temperature": "-t"}
_METAVAR = {
    "model": "MODEL",
    "agents": "A,B,…",
    "agents_file": "FILE",
    "policy": "POLICY",
    "fidelity": "FIDELITY",
    "temperature": "X",
    "chat_template": "NAME|FILE",
    "rpc": "HOST:PORT,…",
    "lora": "FILE[:SCALE],…",
}

MODEL = ("model", "ctx", "threads", "gpu_layers", "rpc", "lora", "chat_template")
SPEECH = ("last", "as_json", "quiet", "verbose", "help")
CHAIN = ("agents", "agents_file", "policy", "fidelity", "max_tokens", "temperature", "seed")


def setting_options(*names: str) -> Decorator:
    """An option for each setting; the command gets one argument `settings` with all settings in force."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(*args: Any, **kwargs: Any) -> Any:
            return function(*args, settings=load_settings({name: kwargs.pop(name) for name in names}), **kwargs)

        wrapped: Callable[..., Any] = command
        for name in reversed(names):
            flags = [flag for flag in (_SHORT.get(name), f"--{name.replace('_', '-')}") if flag]
            wrapped = click.option(*flags, name, metavar=_METAVAR.get(name, "N"), help=_ABOUT[name])(wrapped)
        return wrapped

    return decorate


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets an argument `document`, which it fills, and which is printed at its end."""

    @functools.wraps(function)
    def command(*args: Any, as_json: bool, **kwargs: Any) -> Any:
        document = click.get_current_context().find_object(Document)
        assert document is not None
        document.is_wanted = as_json
        return function(*args, document=document, **kwargs)

    return click.option(FLAG, "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else.")(command)


def file_option(function: Callable[..., Any]) -> Callable[..., Any]:
    about = "Attach a text file, before the task, for every agent to read; may be given several times."
    return click.option("-f", "--file", "files", multiple=True, metavar="FILE", help=about)(function)


def talk_options(function: Callable[..., Any]) -> Callable[..., Any]:
    function = click.option("-v", "--verbose", is_flag=True, help="Show llama.cpp's own messages too.")(function)
    return click.option("-q", "--quiet", is_flag=True, help="Print answers, warnings and errors only.")(function)
