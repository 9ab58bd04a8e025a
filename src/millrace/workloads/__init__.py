"""The schema of workloads, their defaults, and those that come with millrace.

A workload is plain data: factors and parameters, tables or a data set, statements, tests, phases,
checks and metrics. ``definition`` turns it into its checked form, ``defaults`` adds what its phases
imply, and ``statement_effects`` derives what its statements do to rows. The shipped ones are one
TOML file each in ``builtin``. What a trial does with a workload is not here (``trial``), nor how
rows, values and requests are made (the load generator).
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
