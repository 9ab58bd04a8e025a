"""The workloads that come with millrace: one TOML file each in ``builtin/``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from millrace.errors import UserError, nearest

_BUILTIN = files("millrace.workloads") / "builtin"


def names() -> tuple[str, ...]:
    """The names of all workloads, sorted."""
    return tuple(
        sorted(
            entry.name.removesuffix(".toml")
            for entry in _BUILTIN.iterdir()
            if entry.name.endswith(".toml")
        )
    )


def load(name: str) -> Mapping[str, Any]:
    """A workload's definition as plain data; UserError when there is no such workload."""
    if name not in names():
        near = nearest(name, names())
        raise UserError(
            f"there is no workload {name!r}" + (f"; did you mean {near!r}?" if near else ""),
            remedy=f"use one of: {', '.join(names())}",
        )
    return tomllib.loads((_BUILTIN / f"{name}.toml").read_text(encoding="utf-8"))
