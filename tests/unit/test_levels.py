"""Test levels as text, and back."""

from collections.abc import Sequence

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.errors import UserError
from millrace.levels import (
    Level,
    is_name,
    level_named,
    level_text,
    levels_of_role,
    levels_text,
    split_role,
)
from millrace.report.run.sentences import answer
from millrace.report.run.tables import ratios_table, results_table
from millrace.report.run.terminal import as_text
from tests.support.builders import Fails
from tests.support.query_runs import QueryRun

FLUSH = "options.innodb_flush_log_at_trx_commit"


@pytest.mark.parametrize(
    ("factor", "level", "text"),
    [
        ("server", "mysql-8.0.33", "mysql-8.0.33"),
        ("replica.server", "mysql-8.0.33", "replica mysql-8.0.33"),
        ("replica.options.log_bin", True, "replica log_bin on"),
        ("replica.options.slave_parallel_workers", 4, "replica slave_parallel_workers = 4"),
        ("configuration", "2", "2"),
        ("test", "oltp_insert", "oltp_insert"),
        ("engine", "InnoDB", "InnoDB"),
        ("load_method", "single_row", "single_row"),
        ("clients", 16, "clients 16"),
        ("rate", 0.5, "rate 0.5"),
        ("tls", True, "tls on"),
        ("tls", False, "tls off"),
        ("durability", "off", "durability off"),
        ("row_size", "8M", "row_size 8M"),
        (FLUSH, 1, "innodb_flush_log_at_trx_commit = 1"),
        (FLUSH, "0", "innodb_flush_log_at_trx_commit = 0"),
        ("options.innodb_buffer_pool_size", "8M", "innodb_buffer_pool_size = 8M"),
        ("options.innodb_flush_method", "O_DIRECT", "innodb_flush_method = O_DIRECT"),
        ("options.innodb_adaptive_hash_index", True, "innodb_adaptive_hash_index on"),
        ("options.sql_mode", "", "sql_mode = (empty)"),
    ],
)
def test_ambiguous_level_is_shown_with_its_factor(factor: str, level: Level, text: str) -> None:
    assert level_text(factor, level) == text
    assert is_name(factor, level) == (text == level)


@pytest.mark.parametrize(
    ("text", "levels", "level"),
    [
        ("true", [False, True], True),
        ("True", [False, True], True),
        ("ON", [False, True], True),
        ("1", [True, False], True),
        ("FALSE", [False, True], False),
        ("off", [False, True], False),
        ("0", [False, True], False),
        ("off", [True], None),
        ("yes", [False, True], None),
        ("1", [0, 1], 1),
        ("true", [0, 1], None),
        ("on", ["on", "off"], "on"),
        ("ON", ["on", "off"], None),
        ("mysql-5.6.24", ["mysql-5.6.24"], "mysql-5.6.24"),
        ("", ["mysql-5.6.24"], None),
    ],
)
def test_switches_are_written_as_anybody_does(
    text: str, levels: Sequence[Level], level: Level | None
) -> None:
    found = level_named(text, levels)
    assert found == level
    assert type(found) is type(level)


@pytest.mark.parametrize(
    ("factor", "split"),
    [
        ("server", (None, "server")),
        ("options.log_bin", (None, "options.log_bin")),
        ("replica.server", ("replica", "server")),
        ("replica.options.log_bin", ("replica", "options.log_bin")),
    ],
)
def test_a_factor_carries_its_role_as_a_prefix(factor: str, split: tuple[str | None, str]) -> None:
    assert split_role(factor) == split


def test_a_role_has_the_shared_levels_that_it_has_no_own_of() -> None:
    levels: dict[str, Level] = {
        "server": "mysql-5.7.22",
        "options.log_bin": True,
        "replica.server": "mysql-8.0.12",
        "replica.options.log_bin": False,
        "source.configuration": "wmf",
    }
    assert levels_of_role(levels, "replica") == {"server": "mysql-8.0.12", "options.log_bin": False}
    assert levels_of_role(levels, "source") == {
        "server": "mysql-5.7.22",
        "options.log_bin": True,
        "configuration": "wmf",
    }


def test_every_spelling_that_is_listed_is_understood() -> None:
    levels = [True, False]
    assert levels_text(levels) == "on, off (or true, false; or 1, 0)"
    assert levels_text([1, 16]) == "1, 16"
    pairs = (("on", "off"), ("true", "false"), ("1", "0"))
    assert all([level_named(text, levels) for text in pair] == levels for pair in pairs)


def commits(**given: object) -> QueryRun:
    return QueryRun(
        ("mysql-5.6.24",), ("insert",), (8,), factors={FLUSH: ["0", "1"]}, compare=FLUSH, base="0",
        rate=lambda levels: 5_000.0 - 1_000 * int(levels[FLUSH]), **given,  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_report_names_the_option_whose_values_it_compares() -> None:
    found = compare_run(commits().build())
    assert answer(found).startswith(
        "Compared with innodb_flush_log_at_trx_commit = 0, innodb_flush_log_at_trx_commit = 1 gives"
    )
    # In a column under the option's name the value is enough; elsewhere it is not.
    rows = results_table(found, found.headline, found.time).sections[0].rows
    assert [row.cells[0] for row in rows] == ["0", "1"]
    (row,) = ratios_table(found, found.headline).sections[0].rows
    assert row.cells[:2] == tuple(f"innodb_flush_log_at_trx_commit = {n}" for n in (1, 0))


def test_failed_trials_are_of_an_option_not_of_a_number() -> None:
    fails = commits(fails=lambda at, block: Fails() if at[FLUSH] == "1" and block == 0 else None)
    (comparison,) = compare_run(fails.build()).comparisons()
    assert comparison.lost == "1 of 3 trials of innodb_flush_log_at_trx_commit = 1 failed"


def test_the_base_of_a_report_may_be_on_or_true() -> None:
    run = QueryRun(
        ("mysql-5.6.24",), ("insert",), (8,), factors={"tls": [False, True]}, compare="tls",
        base=False,  # type: ignore[arg-type]
    ).build()  # fmt: skip
    assert compare_run(run, base="on").base is True
    assert compare_run(run, base="true").base is True
    with pytest.raises(UserError, match="is not a level of") as raised:
        compare_run(run, base="yes")
    assert raised.value.hint == "its levels are: off, on (or false, true; or 0, 1)"
    text = as_text(compare_run(run))
    assert "True" not in text
    assert "Compared with tls off, tls on" in " ".join(text.split())
