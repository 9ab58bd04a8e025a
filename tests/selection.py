"""Find tests of processes, signals and clocks: those whose code reaches certain modules.

A test reaches what its function, its fixtures and the helpers that these call name, across the
modules of ``tests``. Nothing is imported.
"""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES = frozenset(
    ("multiprocessing", "psutil", "sched", "select", "signal", "subprocess", "threading", "time")
)
CALLS = frozenset(("os.fork", "os.kill", "os.killpg", "os.sched_yield", "os.waitpid"))


@dataclass(frozen=True)
class _Module:
    """The names that each definition of a module uses, and what imported names stand for."""

    uses: dict[str, frozenset[str]] = field(default_factory=dict)
    fixtures: frozenset[str] = frozenset()
    # A name's own module ("signal"), or a definition of another module of tests.
    modules: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, tuple[Path, str]] = field(default_factory=dict)


def all_tests(root: Path = ROOT) -> dict[str, bool]:
    """Return all tests as pytest names them, without parameters.

    The value is True for a test of processes, signals and clocks.
    """
    return {
        f"{module}::{test}": is_sensitive(module, test, root)
        for module, test in names_of_tests(root)
    }


def names_of_tests(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield the module, a path below ``root``, and the name of each test."""
    for file in sorted((root / "tests").rglob("test_*.py")):
        for name in _module(file, root).uses:
            if name.startswith("test_"):
                yield str(file.relative_to(root)), name


def is_sensitive(module: str, test: str, root: Path = ROOT) -> bool:
    """Return whether a test of a module, a path below ``root``, is of processes or clocks."""
    return _reaches(root / module, test, root)


def _reaches(file: Path, name: str, root: Path) -> bool:
    """Return whether a definition, or one that it uses, names a sensitive module."""
    seen: set[tuple[Path, str]] = set()
    left = [(file, name)]
    while left:
        if (this := left.pop()) in seen:
            continue
        seen.add(this)
        module = _module(this[0], root)
        for used in module.uses.get(this[1], ()):
            if used in CALLS or module.modules.get(used) in MODULES:
                return True
            if used in module.definitions:
                left.append(module.definitions[used])
            elif used in module.uses:
                left.append((this[0], used))
            else:
                left += [(each, used) for each in _conftests(this[0], root, used)]
    return False


def _conftests(file: Path, root: Path, fixture: str) -> Iterator[Path]:
    """Yield the conftest.py files of a test whose fixture it may be, but for the shared one.

    The one of all tests starts servers and makes directories, which is not a matter of clocks.
    """
    for directory in file.parents:
        if directory == root / "tests":
            return
        conftest = directory / "conftest.py"
        if conftest.exists() and fixture in _module(conftest, root).fixtures:
            yield conftest


@cache
def _module(file: Path, root: Path) -> _Module:
    uses: dict[str, frozenset[str]] = {}
    fixtures: set[str] = set()
    modules: dict[str, str] = {}
    definitions: dict[str, tuple[Path, str]] = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            for each in node.names:
                modules[each.asname or each.name.partition(".")[0]] = each.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for each in node.names:
                local = each.asname or each.name
                modules[local] = node.module.partition(".")[0]
                if (found := _definition(node.module, each.name, root)) is not None:
                    definitions[local] = found
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            uses[node.name] = frozenset(_names(node))
            if any("fixture" in ast.unparse(each) for each in node.decorator_list):
                fixtures.add(node.name)
    return _Module(uses, frozenset(fixtures), modules, definitions)


def _definition(module: str, name: str, root: Path) -> tuple[Path, str] | None:
    """Return the file and name of a definition of tests, None for a module of others."""
    if module.partition(".")[0] != "tests":
        return None
    file = root / Path(*module.split(".")).with_suffix(".py")
    return (file, name) if file.exists() else None


def _names(node: ast.AST) -> Collection[str]:
    """Return the names in a definition, its parameters (fixtures), and what it uses of ``os``."""
    parts = list(ast.walk(node))
    found = {each.id for each in parts if isinstance(each, ast.Name)}
    found |= {each.arg for each in parts if isinstance(each, ast.arg)}
    of_modules = (each for each in parts if isinstance(each, ast.Attribute))
    return found | {f"os.{each.attr}" for each in of_modules if ast.unparse(each.value) == "os"}
