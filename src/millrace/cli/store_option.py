"""The option that names the results store, the same for every command that uses one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from millrace import paths

F = TypeVar("F", bound=Callable[..., Any])


def store_option(command: F) -> F:
    """Add ``--store PATH``; the command gets it as ``store``."""
    return click.option(
        "--store",
        type=click.Path(path_type=Path),
        default=paths.default_store,
        show_default="results.sqlite in millrace's state directory",
        help="The results store (also MILLRACE_STORE).",
    )(command)
