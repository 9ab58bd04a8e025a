"""Test that names of functions of any length, and stacks of any depth, take little time."""

import time

import pytest

from millrace.analysis.explain.call_tree import call_tree, path_of
from millrace.collect.profiling.function_names import short
from millrace.report.common.wording import short_symbol
from millrace.report.explanation.folded_stacks import as_folded

_MOST_S = 10.0  # on a busy host; each took minutes

N = 40_000


@pytest.mark.parametrize(
    "name",
    [
        "<" * N + ">" * N,
        "(" * N + ")" * N,
        "a" + "[clone " * N,
        " " * N + "x",
        "f" + " " * N + "[clone",
        "f" + "(a)" * N,
    ],
)
def test_a_long_name_is_soon_shown(name: str) -> None:
    began_s = time.process_time()
    assert len(short_symbol(name)) <= len(name)
    assert time.process_time() - began_s < _MOST_S


def test_brackets_in_brackets_are_left_out() -> None:
    assert short_symbol("void f<a<b>, c>(d<e> (*)(g), h) const") == "f"
    assert short_symbol("a<b") == "a<b"
    assert short_symbol("a>b)c") == "a>b)c"


@pytest.mark.parametrize(
    "name",
    [
        "operator " * N,
        "operator " + "<" * N + " operator",
        "a" + ".isra" * N + "x",
        "a" + ".isra" * N,
        "a" + "[clone " * N,
        "a" + " const" * N + "x",
        "operator " * 900,
        "x::operator a<operator b<operator c>>()" * 20,
    ],
)
def test_a_long_name_is_soon_shortened(name: str) -> None:
    began_s = time.process_time()
    assert len(short(name)) <= 1024
    assert time.process_time() - began_s < _MOST_S


def test_copies_are_one_function() -> None:
    assert short("f.isra.0.cold.12") == "f"
    assert short(".plt") == ".plt"
    assert short("f.other.0") == "f.other"


def test_a_stack_of_any_depth_is_a_path() -> None:
    path = path_of("connection;" + "m`f;" * 200_000 + "m`" + "g" * 1_000_000)
    assert len(path) < 2000
    assert max(len(symbol) for _, symbol in path) < 3000
    assert path_of("connection;m`f;m`g") == (("", "connection"), ("m", "f"), ("m", "g"))
    tree = call_tree({path: 1.0}, {path: 2.0})
    assert as_folded(tree, "A").startswith("connection;m`f;m`f")
