"""Group the functions of a profile by their purpose, by the rules in ``function_groups.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from millrace.analysis.explain.call_tree import KERNEL, UNKNOWN, Frame


@dataclass(frozen=True)
class Group:
    """A purpose that functions serve; ``functions`` are names and patterns, ``libraries`` files
    whose functions serve it unless their names say something else."""

    name: str
    title: str
    kernel: bool
    functions: tuple[str, ...]
    libraries: tuple[str, ...]


@lru_cache(maxsize=1)
def groups() -> tuple[Group, ...]:
    """Return all groups, in the order of tables."""
    rules = (
        files("millrace.analysis.explain")
        .joinpath("function_groups.toml")
        .read_text(encoding="utf-8")
    )
    return tuple(
        Group(
            name=rule["name"],
            title=rule["title"],
            kernel=rule.get("kernel", False),
            functions=tuple(rule["functions"]),
            libraries=tuple(rule.get("libraries", ())),
        )
        for rule in tomllib.loads(rules)["groups"]
    )


def group_of(path: Sequence[Frame]) -> Group:
    """Return the group of a sample, whose innermost function is the last of ``path``."""
    if not path:
        return _named("other")
    in_kernel = path[-1][0] == KERNEL
    for module, symbol in reversed(path):
        if (module == KERNEL) != in_kernel:
            break
        group = own_group(module, symbol)
        if group is not None:
            return group
    return _named("kernel_other" if in_kernel else "other")


@lru_cache(maxsize=65536)
def own_group(module: str, symbol: str) -> Group | None:
    """Return the group of a function by its own name, or by its library; None where neither
    says."""
    in_kernel = module == KERNEL
    found = [
        (letters, group)
        for letters, pattern, group in _patterns()
        if group.kernel == in_kernel and pattern.fullmatch(symbol)
    ]
    if found and symbol != UNKNOWN:
        return max(found, key=lambda each: each[0])[1]
    by_library = (group for group in groups() if module in group.libraries)
    return next(by_library, found[0][1] if found else None)


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[int, re.Pattern[str], Group], ...]:
    """Return the patterns with the number of their letters; a name as it stands goes before all."""
    return tuple(
        (
            len(written.replace("*", "")) + (1000 if "*" not in written else 0),
            re.compile(".*".join(re.escape(part) for part in written.split("*")), re.DOTALL),
            group,
        )
        for group in groups()
        for written in group.functions
    )


def _named(name: str) -> Group:
    return next(group for group in groups() if group.name == name)
