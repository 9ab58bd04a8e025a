"""Find the database families, in ``FAMILIES`` of each package here.

The modules here define the protocols by which the rest of millrace uses a family; each package
implements them for its families. Nothing else names such a package: differences between families
are queried through the protocols. Installing and running servers belongs to ``millrace.servers``.
"""

import functools
import importlib
import pkgutil
from collections.abc import Mapping

from millrace.databases.base import Family, Storage
from millrace.errors import UserError, nearest

__all__ = [
    "Family", "get", "is_volatile", "names", "option_forms", "programs", "says_disk_full",
    "storages",
]  # fmt: skip

_NO_SPACE = "no space left on device"


def names() -> tuple[str, ...]:
    """Return the names of all families, sorted."""
    return tuple(sorted(_families()))


def programs() -> frozenset[str]:
    """Return the names of the server processes of all families."""
    return frozenset(program for family in _families().values() for program in family.programs)


def is_volatile(engine: str) -> bool:
    """Return whether the tables of an engine are empty after a restart, in any family."""
    families = _families().values()
    return any(engine.casefold() in family.snapshots.volatile_engines for family in families)


def storages() -> tuple[Storage, ...]:
    """Return the storage of each family."""
    return tuple(family.storage for family in _families().values())


def says_disk_full(text: str) -> bool:
    """Return whether a text has a message of a family, or of the C library, for a full disk."""
    patterns = (family.log.disk_full for family in _families().values())
    return _NO_SPACE in text.lower() or any(pattern.search(text) for pattern in patterns)


def get(name: str) -> Family:
    """Return the family called ``name``. Raise UserError with the nearest name."""
    family = _families().get(name)
    if family is None:
        near = nearest(name, names())
        hint = f"did you mean {near!r}?" if near else f"use one of {', '.join(names())}"
        raise UserError(f"unknown family {name!r}", hint=hint)
    return family


def option_forms(name: str) -> tuple[str, ...]:
    """Return the options that a name may mean in any family: itself, and what it switches."""
    spelt = [family.options.forms(name) for family in _families().values()]
    return tuple(dict.fromkeys(form for forms in spelt for form in forms))


@functools.cache
def _families() -> Mapping[str, Family]:
    packages = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in packages]
    return {family.name: family for module in modules for family in module.FAMILIES}
