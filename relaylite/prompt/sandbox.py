"""The sandbox in which chat templates run: Jinja as Hugging Face and llama.cpp offer it to them, with limits.

Templates come out of model files that anyone may have made. They can reach nothing outside, and one that loops for ever ends in
`TemplateTimeout`. It knows no messages and no tokens.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any, NoReturn

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

TIME_LIMIT_S = 2.0
MAX_OUTPUT = 2**26  # characters
_MAX_PRODUCT = 2**20  # items of a repeated text or list; a bound on the value of other products


class TemplateTimeout(TemplateError):
    """A template ran for longer than `TIME_LIMIT_S` or wrote more than `MAX_OUTPUT`."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Compiles templates so that every round of a loop and every call of a macro looks at the clock.

    Looking at the clock works in any thread and costs 1–2 µs a round; signals, tracing or a second process would cost more or work
    in the main thread only. Products and powers are limited apart, since a single huge one never comes back to the clock.
    """

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation])
        self._thread = threading.local()
        self.filters["tojson"] = _tojson
        self.globals["raise_exception"] = _raise_exception
        del self.globals["lipsum"]

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        tick = nodes.EnvironmentAttribute("is_in_time")
        for node in tree.find_all(nodes.Stmt):
            if isinstance(node, nodes.For):
                node.test = tick if node.test is None else nodes.And(tick, node.test)
            elif isinstance(node, nodes.Macro | nodes.CallBlock):
                node.body.insert(0, nodes.ExprStmt(tick))
        tree.set_environment(self)
        return tree

    def render(self, template: Template, variables: dict[str, Any]) -> str:
        """The text that `template` writes. Raises whatever the template makes Python raise, and TemplateTimeout."""
        self._thread.deadline = time.monotonic() + TIME_LIMIT_S
        written: list[str] = []
        size = 0
        for text in template.generate(variables):
            written.append(text)
            size += len(text)
            if size > MAX_OUTPUT:
                raise TemplateTimeout(f"it wrote more than {MAX_OUTPUT} characters")
        return "".join(written)

    @property
    def is_in_time(self) -> bool:
        """True, or raises TemplateTimeout. A property, since that is what compiled templates reach without the sandbox's detours."""
        if time.monotonic() > self._thread.deadline:
            raise TemplateTimeout(f"it ran for more than {TIME_LIMIT_S:g} s")
        return True

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and not (_is_small(left) and _is_small(right)):
            raise TemplateError("a power is too large")
        if operator == "*" and _size(left) * _size(right) > _MAX_PRODUCT:
            raise TemplateError("a product is too large")
        return super().call_binop(context, operator, left, right)


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}`, which marks answers for training and prints what is inside."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own declaration)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _is_small(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= 64


def _size(value: Any) -> int:
    """Items of a text or list, the value of a whole number."""
    return abs(value) if isinstance(value, int) else len(value) if isinstance(value, str | list | tuple) else 1


def _raise_exception(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: tuple[str, str] | None = None, sort_keys: bool = False
) -> str:
    """As Hugging Face defines it: Jinja's own escapes HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
