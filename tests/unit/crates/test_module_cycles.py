"""Test that the modules of each crate form no cycle, as the packages of Python form none."""

import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from crates.cargo_lock import ROOT

CRATES = sorted(path.parent.parent for path in (ROOT / "crates").glob("*/src/lib.rs"))

Module = tuple[str, ...]


def modules(crate: Path) -> Mapping[Module, str]:
    """Return the product code of each module by its path, without comments and tests."""
    found = {}
    for file in (crate / "src").rglob("*.rs"):
        path = file.relative_to(crate / "src").with_suffix("").parts
        text = file.read_text(encoding="utf-8").split("#[cfg(test)]\nmod tests {")[0]
        if "tests" not in path and path != ("main",):
            name = path[:-1] if path[-1] in ("mod", "lib") else path
            found[name] = re.sub(r"//.*", "", text)
    return found


def expanded(tree: str) -> Iterator[Module]:
    """Yield the paths of a use declaration: of ``a::{b, c::d}`` both (a, b) and (a, c, d)."""
    head, brace, rest = tree.partition("{")
    prefix = tuple(head.split(" as ")[0].replace("::", " ").split())
    if not brace:
        yield prefix[:-1] if prefix[-1] == "self" else prefix
        return
    depth, item = 0, ""
    for sign in rest.rpartition("}")[0] + ",":
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            if item.strip():
                yield from (prefix + path for path in expanded(item.strip()))
            item = ""
        else:
            item += sign


def absolute(path: Module, of: Module, known: Mapping[Module, str]) -> Module | None:
    """Return a path from the root of its crate; None for what another crate has."""
    while path[:1] in (("super",), ("self",)):
        of = of[:-1] if path[0] == "super" else of
        path = ("crate", *of, *path[1:]) if path[1:2] != ("super",) else path[1:]
    if path[:1] == ("crate",):
        return path[1:]
    return (*of, *path) if path and (*of, path[0]) in known else None


def uses(known: Mapping[Module, str]) -> Mapping[Module, set[Module]]:
    """Return the modules whose items each module names, through the re-exports of others."""
    named: dict[Module, list[Module]] = {}
    exports: dict[Module, Module] = {}
    for module, text in known.items():
        trees = re.findall(r"\buse ([^;]+);", text)
        inline = re.findall(r"\b(?:crate|super)(?:::\w+)+", re.sub(r"\buse [^;]+;", "", text))
        paths = [path for tree in [*trees, *inline] for path in expanded(tree)]
        named[module] = [to for path in paths if (to := absolute(path, module, known)) is not None]
        exports |= {(*module, to[-1]): to for to in named[module] if to not in known}

    def home(path: Module) -> Module:
        path = exports.get(path, path)
        while path not in known:
            path = path[:-1]
        return path

    return {module: {home(path) for path in paths} for module, paths in named.items()}


def cycle(used: Mapping[Module, set[Module]]) -> list[Module]:
    """Return siblings that need each other, with all that is inside of them; empty without any."""
    graphs: dict[Module, dict[Module, set[Module]]] = {}
    for module, others in used.items():
        for other in others:
            same = [a == b for a, b in zip(module, other, strict=False)]
            depth = same.index(False) if False in same else len(same)
            if depth < min(len(module), len(other)):
                graph = graphs.setdefault(module[:depth], {})
                graph.setdefault(module[: depth + 1], set()).add(other[: depth + 1])
    for graph in graphs.values():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            return list(error.args[1])
    return []


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_modules_of_a_crate_form_no_cycle(crate: Path) -> None:
    assert cycle(uses(modules(crate))) == []


def test_cycle_is_found_through_groups_and_reexports() -> None:
    known = {
        (): "mod a; mod b;",
        ("a",): "use crate::{x::Y, b::inner::{C, D as E}};\npub use part::F;",
        ("a", "part"): "pub struct F;",
        ("b",): "mod inner;",
        ("b", "inner"): "use std::a; fn f() { super::super::a::F; }",
    }
    assert uses(known)["b", "inner"] == {("a", "part")}
    assert set(cycle(uses(known))) == {("a",), ("b",)}
    assert cycle(uses({**known, ("b", "inner"): "use super::G;"})) == []
