"""Test the line of every key, in any surrounding TOML."""

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.experiment.toml_files import key_lines, line_of

KEYS = st.text("abc-_1", min_size=1, max_size=3)
SCALARS = st.sampled_from(
    ["1", "-2.5", "true", '"a # = [ ] , b"', "'{'", '"\\"]"', '"""x\n[a]\n"y" """', "'''\n'\n'''"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[" + ",\n # ]\n".join(items) + "]")
        | st.dictionaries(KEYS, inner, max_size=3).map(
            lambda table: "{" + ", ".join(f"{key} = {value}" for key, value in table.items()) + "}"
        )
    ),
    max_leaves=8,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=4)


def places(value: Any, place: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            below = f"{place}.{key}" if place else key
            yield below
            yield from places(inner, below)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield f"{place}[{index}]"
            yield from places(inner, f"{place}[{index}]")


def written(table: dict[str, str]) -> str:
    return "".join(f"{key} = {value} # comment [\n\n" for key, value in table.items())


@given(TABLES, st.dictionaries(st.sampled_from(["x", "y", "x.z"]), TABLES), st.lists(TABLES))
def test_every_key_and_element_has_a_line(
    top: dict[str, str], tables: dict[str, dict[str, str]], listed: list[dict[str, str]]
) -> None:
    text = written(top)
    for name, table in sorted(tables.items()):
        text += f"[t.{name}]\n" + written({f"k{key}": value for key, value in table.items()})
    for table in listed:
        text += "[[ many . of ]]\n" + written(table) + "[many.of.inside]\n" + "k = 1\n"
    lines = key_lines(text)
    last = text.count("\n") + 1
    for place in places(tomllib.loads(text)):
        assert 1 <= lines[place] <= last


@given(TABLES, TABLES)
def test_a_line_holds_the_key_it_is_given_for(first: dict[str, str], then: dict[str, str]) -> None:
    text = written(first) + "[table]\n" + written(then)
    lines = key_lines(text)
    for key in first:
        assert text.splitlines()[lines[key] - 1].startswith(f"{key} =")
    for key in then:
        assert text.splitlines()[lines[f"table.{key}"] - 1].startswith(f"{key} =")


def test_elements_of_a_long_list_have_their_own_lines() -> None:
    lines = key_lines('[factors]\nserver = [\n  "a", # ,\n  "b",\n]\nother."x.y" = 1\n')
    assert (lines["factors.server[0]"], lines["factors.server[1]"]) == (3, 4)
    assert lines["factors.other.x.y"] == 6


def test_a_place_without_a_line_takes_that_of_what_encloses_it() -> None:
    lines = key_lines("[scales.demo]\nrows = 1\n")
    assert line_of("scales.demo.blocks", lines) == 1
    assert line_of("scales.demo.factors.server[2]", lines) == 1
    assert line_of("compare", lines) is None


@pytest.mark.parametrize("where", ["a[b", "x]", "a.b[c]d", "[", ".", "a[0][", "the workload"])
def test_line_of_a_place_that_is_not_there_is_none(where: str) -> None:
    assert line_of(where, {"b": 3}) is None
