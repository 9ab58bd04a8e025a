"""The families of servers. A folder here is a kind of database; its package offers ``FAMILIES``."""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping

from millrace.databases.base import Family
from millrace.errors import UserError, nearest

__all__ = ["Family", "get", "names", "option_forms", "registered"]

_registered: dict[str, Family] = {}


def names() -> tuple[str, ...]:
    """Return the names of all families, sorted."""
    return tuple(sorted(_shipped()))


def get(name: str) -> Family:
    """Return the family called ``name``.

    Raises UserError, with the nearest names, where there is none.
    """
    family = _shipped().get(name) or _registered.get(name)
    if family is None:
        near = nearest(name, names())
        hint = f"did you mean {near!r}?" if near else f"use one of {', '.join(names())}"
        raise UserError(f"there is no family {name!r}", hint=hint)
    return family


@contextlib.contextmanager
def registered(family: Family) -> Iterator[None]:
    """Let ``get`` find a family that is not shipped, inside the block: for tests."""
    _registered[family.name] = family
    try:
        yield
    finally:
        del _registered[family.name]


def option_forms(name: str) -> tuple[str, ...]:
    """Return the options that a name may be about in any family: itself first, then what it
    switches."""
    spelt = [family.options.forms(name) for family in _shipped().values()]
    return tuple(dict.fromkeys(form for forms in spelt for form in forms))


@functools.cache
def _shipped() -> Mapping[str, Family]:
    packages = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in packages]
    return {family.name: family for module in modules for family in module.FAMILIES}
