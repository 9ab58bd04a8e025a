"""Test what the command line answers to mistyped options and commands."""

import pytest

from tests.support.called import millrace


@pytest.mark.parametrize(
    ("arguments", "suggested"),
    [
        (("run", "x.toml", "--stoer=x"), "Did you mean '--store'?"),
        (("run", "x.toml", "--block", "3"), "Did you mean '--blocks'?"),
        (("rnu",), "Did you mean 'run'?"),
        (("servers", "lits"), "Did you mean 'list'?"),
    ],
)
def test_mistyped_names_are_suggested(arguments: tuple[str, ...], suggested: str) -> None:
    done = millrace(*arguments, status=2)
    assert suggested in done.stderr
    assert "Usage: millrace" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("run", "x.toml", "--test", "foo"), ("plan", "-Z"), ("quux",), ("servers", "fetch")],
)
def test_nothing_is_suggested_when_no_name_is_near(arguments: tuple[str, ...]) -> None:
    done = millrace(*arguments, status=2)
    assert "No such" in done.stderr
    assert "Did you mean" not in done.stderr
