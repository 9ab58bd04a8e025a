"""Load the workloads that come with millrace: one TOML file each, beside this module."""

import tomllib
from importlib.resources import files

from millrace.errors import UserError, did_you_mean
from millrace.workloads.defaults import completed
from millrace.workloads.schema_factors import Definition

_BUILTIN = files(__name__)


def names() -> tuple[str, ...]:
    """Return the names of all workloads, sorted."""
    files_there = (entry.name for entry in _BUILTIN.iterdir())
    return tuple(sorted(f.removesuffix(".toml") for f in files_there if f.endswith(".toml")))


def load(name: str) -> Definition:
    """Return a workload's complete definition as plain data; raise UserError if unknown."""
    if name not in names():
        raise UserError(
            f"unknown workload {name!r}{did_you_mean(name, names())}",
            hint=f"use one of: {', '.join(names())}",
        )
    return completed(tomllib.loads(text(name)))


def text(name: str) -> str:
    """Return the text of a workload's file."""
    return (_BUILTIN / f"{name}.toml").read_text(encoding="utf-8")


def of_test(test: str) -> str | None:
    """Return the workload that has a test of this name."""
    return next((name for name in names() if test in load(name).get("tests", {})), None)
