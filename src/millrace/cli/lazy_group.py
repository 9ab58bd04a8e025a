"""Groups whose commands are imported when they are asked for, which keeps the command line fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group of commands, each in a module of this package that exports ``command``.

    ``described`` holds what each is for, in the order in which they are listed; a module is called
    as its command, after ``prefix``.
    """

    def __init__(
        self, *args: Any, described: Mapping[str, str], prefix: str = "", **others: Any
    ) -> None:
        super().__init__(*args, **others)
        self._described = described
        self._prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._described)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._described:
            return None
        module = import_module(f"millrace.cli.{self._prefix}{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._described.items()))
