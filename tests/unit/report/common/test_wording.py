import shlex
from dataclasses import replace

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.compare.compare_run import compare_run
from millrace.cli.main import cli
from millrace.report.common.wording import extended, repeating, short_symbol
from millrace.report.run.formats import render
from tests.support.builders import study


@pytest.mark.parametrize(
    ("command", "again"),
    [
        ("millrace run a.toml --scale demo", "millrace run --new a.toml --scale demo"),
        ("millrace run --new a.toml", "millrace run --new a.toml"),
        ("millrace calibrate a.toml", "millrace calibrate --new a.toml"),
        ("millrace bisect --good a --bad b", "millrace bisect --new --good a --bad b"),
        ("millrace explain latest --ablate", "millrace explain latest --ablate"),
        ("millrace history confirm 4f2a", ""),
        ("millrace runner", "millrace runner"),
        ("millrace run 'my --new one.toml'", "millrace run --new 'my --new one.toml'"),
        ("millrace run 'it'\"'\"'s.toml'", "millrace run --new 'it'\"'\"'s.toml'"),
        ("millrace run it's.toml", ""),
        ("curl example.org | sh", ""),
        ("millrace run a.toml; sh b", "millrace run --new 'a.toml;' sh b"),
        ("millrace run $(sh b)\nsh c", "millrace run --new '$(sh' 'b)' sh c"),
        ("", ""),
    ],
)
def test_the_command_begins_a_new_run(command: str, again: str) -> None:
    assert repeating(command) == again


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_reports_of_a_confirmation_say_nothing_of_repeating(form: str) -> None:
    made = study()
    run = replace(made.run, millrace_command="millrace history confirm 4f2a")
    text = render(compare_run(replace(made, run=run)), form)
    assert "To repeat" not in text
    assert "history confirm" not in text


@pytest.mark.parametrize(
    "command",
    [
        "millrace run experiments/load-data.toml --scale demo --blocks 3",
        "millrace run --retry-failed experiments/load-data.toml",
        "millrace calibrate experiments/load-data.toml --scale demo",
        "millrace bisect --good mysql-a --bad mysql-b --among mysql-a,mysql-b --workload one-row",
    ],
)
def test_the_command_line_takes_it_and_measures_anew(command: str) -> None:
    _, name, *arguments = shlex.split(repeating(command))
    with click.Context(cli) as outer:
        called = cli.get_command(outer, name)
        assert called is not None
        assert called.make_context(name, arguments, parent=outer).params["fresh"] is True
        _, _, *as_recorded = shlex.split(command)
        assert called.make_context(name, as_recorded, parent=outer).params["fresh"] is False


@pytest.mark.parametrize(
    ("command", "longer"),
    [
        ("millrace run a.toml --scale demo", "millrace run a.toml --scale demo --blocks 9"),
        ("millrace run --new --blocks 5 a.toml", "millrace run a.toml --blocks 9"),
        ("millrace run a.toml --max-blocks=20", "millrace run a.toml --blocks 9"),
        ("millrace run 'my file.toml'", "millrace run 'my file.toml' --blocks 9"),
        ("millrace calibrate a.toml", ""),
        ("not 'a command", ""),
    ],
)
def test_a_run_is_extended_by_its_own_command(command: str, longer: str) -> None:
    assert extended(command, "--blocks 9") == longer


def test_limits_replace_all_of_the_command() -> None:
    command = "millrace run a.toml --max-blocks 9 --max-time 25min"
    assert extended(command, "--max-time 40min") == "millrace run a.toml --max-time 40min"
    command = "millrace run --max-blocks=9 a.toml --max-time 25min"
    assert extended(command, "--max-blocks 12 --max-time 40min") == (
        "millrace run a.toml --max-blocks 12 --max-time 40min"
    )


@pytest.mark.parametrize(
    ("symbol", "short"),
    [
        ("main", "main"),
        ("do_command(THD*)", "do_command"),
        ("row_search_mvcc(unsigned char*, page_cur_mode_t, row_prebuilt_t*)", "row_search_mvcc"),
        ("Item_func::fix_fields(THD*, Item**) const", "Item_func::fix_fields"),
        ("void std::sort<int*, bool (*)(int, int)>(int*, int*)", "std::sort"),
        ("rw_lock_x_lock_func [clone .isra.0]", "rw_lock_x_lock_func"),
        ("page_cur_search_with_match.constprop.3", "page_cur_search_with_match"),
        ("(anonymous namespace)::Log::write(char const*)", "Log::write"),
        ("Bitmap<64u>::is_set(unsigned int) const", "Bitmap::is_set"),
        ("operator new(unsigned long)", "operator new(unsigned long)"),
        ("std::operator<<(std::ostream&, char)", "std::operator<<(std::ostream&, char)"),
        ("page_cleaner", "page_cleaner"),
        ("[unknown]", "[unknown]"),
        ("", ""),
    ],
)
def test_names_are_short(symbol: str, short: str) -> None:
    assert short_symbol(symbol) == short


@given(st.text())
def test_any_name_has_a_short_one(symbol: str) -> None:
    assert len(short_symbol(symbol)) <= len(symbol)
