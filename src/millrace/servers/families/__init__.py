"""The families of servers. A family is one folder here whose package offers ``FAMILY``."""

from __future__ import annotations

import importlib
import pkgutil

from millrace.errors import UserError, nearest
from millrace.servers.families.model import Family

__all__ = ["Family", "get", "names"]


def names() -> tuple[str, ...]:
    """The names of all families, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))


def get(name: str) -> Family:
    """The family called ``name``.

    Raises UserError, with the nearest names, where there is none.
    """
    known = names()
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean {near!r}?" if near else f"use one of {', '.join(known)}"
        raise UserError(f"there is no family {name!r}", remedy=hint)
    family = importlib.import_module(f"{__name__}.{name}").FAMILY
    assert isinstance(family, Family)
    return family
