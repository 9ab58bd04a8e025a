"""Define the schema of workloads, their defaults, and the workloads shipped with millrace.

A workload is plain data: factors and parameters, tables or a data set, statements, tests, phases,
checks and metrics. ``definition`` converts it into its checked form. ``defaults`` adds the factors,
parameters and metrics that its phases imply. ``statement_effects`` derives the effects of its
statements on rows. Each shipped workload is a TOML file in ``builtin``.

Executing a workload belongs to ``trial``; generating rows, values and requests belongs to the load
generator.
"""

import tomllib
from importlib.resources import files

from millrace.errors import UserError, did_you_mean
from millrace.model.phases import DRIVE
from millrace.workloads.defaults import completed
from millrace.workloads.definition import Workload, parse_workload
from millrace.workloads.phases import Phase
from millrace.workloads.schema_factors import FREE_LEVEL, Definition, Parameter, WorkloadFactor

__all__ = [
    "DRIVE", "FREE_LEVEL", "Parameter", "Phase", "Workload", "WorkloadFactor", "completed", "load",
    "names", "of_test", "parse_workload", "text",
]  # fmt: skip

_BUILTIN = files(__name__) / "builtin"


def names() -> tuple[str, ...]:
    """Return the names of the shipped workloads, sorted."""
    files_there = (entry.name for entry in _BUILTIN.iterdir())
    return tuple(sorted(f.removesuffix(".toml") for f in files_there if f.endswith(".toml")))


def load(name: str) -> Definition:
    """Return a shipped workload's complete definition; raise UserError for an unknown name."""
    if name not in names():
        raise UserError(
            f"unknown workload {name!r}{did_you_mean(name, names())}",
            hint=f"use one of: {', '.join(names())}",
        )
    return completed(tomllib.loads(text(name)))


def text(name: str) -> str:
    """Return the text of a shipped workload's file."""
    return (_BUILTIN / f"{name}.toml").read_text(encoding="utf-8")


def of_test(test: str) -> str | None:
    """Return the shipped workload that has a test of this name; None without one."""
    return next((name for name in names() if test in load(name).get("tests", {})), None)
