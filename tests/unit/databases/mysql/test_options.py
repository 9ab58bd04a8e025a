import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.databases.mysql.options import parse_option_file


def test_options_are_read_with_group_and_line() -> None:
    text = "# ours\n[client]\nport = 3306\n\n[ MYSQLD ] # the server\nskip-name-resolve\nmax_x=1\n"
    found = parse_option_file(text).options
    assert [(each.group, each.name, each.value, each.line) for each in found] == [
        ("client", "port", "3306", 3),
        ("mysqld", "skip-name-resolve", None, 6),
        ("mysqld", "max_x", "1", 7),
    ]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("a = 4000   # peak", "4000"),
        ("a = 'x # y'  # z", "x # y"),
        ('a = "it\\"s"', 'it"s'),
        ("a = one\\stwo", "one two"),
        ("a = C:\\\\data", "C:\\data"),
        ("a = \\qx", "\\qx"),
        ("a =", ""),
        ("a=b=c", "b=c"),
        ("a = 'open", "'open"),
    ],
)
def test_value_is_read_with_quotes_comments_and_escapes(line: str, value: str) -> None:
    [option] = parse_option_file(f"[mysqld]\n{line}\n").options
    assert option.value == value


def test_includes_are_returned_with_their_lines() -> None:
    found = parse_option_file("[mysqld]\n!includedir /etc/mysql/conf.d/\n")
    assert found.includes == ((2, "!includedir /etc/mysql/conf.d/"),)


@pytest.mark.parametrize(
    ("text", "line"),
    [("max_connections = 5", 1), ("[mysqld]\n= 5", 2), ("[mysqld\na = 1", 1), ("[m]\na b", 2)],
)
def test_line_that_is_no_option_is_a_mistake(text: str, line: int) -> None:
    found = parse_option_file(text)
    assert found.mistakes[0].line == line


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    found = parse_option_file(text)
    assert all(option.line <= text.count("\n") + 1 for option in found.options)
