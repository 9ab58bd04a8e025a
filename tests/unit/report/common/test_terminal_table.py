"""Test tables on a terminal."""

from functools import partial

from millrace.report.common.tables import Column, Row, Section, Table
from millrace.report.common.terminal_table import show_table
from tests.support.reports import terminal_text


def test_a_name_in_a_table_of_the_terminal_stays_on_its_line() -> None:
    name, same = "a\nb\r\n\x1b[2J\tc", r"a\nb\r\n\x1b[2J\tc"
    table = Table("t", (Column("server"), Column(name)), (Section("", (Row((name, "1")),)),))
    text = terminal_text(partial(show_table, table), width=200)
    head, _, row = (line.split() for line in text.splitlines() if line.strip())
    assert (head, row) == (["server", same], [same, "1"])
