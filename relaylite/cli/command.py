"""`Command` and `Group`: those of click, with options under headings, examples, and the closest name for a mistyped one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from relaylite.cli.options import CHAIN, MODEL, SPEECH
from relaylite.errors import did_you_mean

CONTEXT = {"help_option_names": ["-h", "--help"]}
_HEADINGS = {**dict.fromkeys(CHAIN, "Chain"), **dict.fromkeys(MODEL, "Model"), **dict.fromkeys(SPEECH, "Output")}


class Command(click.Command):
    """`examples`: command lines, as they are typed."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first, then those that commands share, under a heading each."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Chain": [], "Model": [], "Output": []}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None:
                sections[_HEADINGS.get(param.name or "", "Options")].append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.examples, formatter)


class Group(click.Group):
    """Commands below a command."""

    command_class = Command

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"there is no command {args[0]!r}; {did_you_mean(args[0], known, 'known: ' + ', '.join(known))}", ctx)
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.examples, formatter)


def _write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")
