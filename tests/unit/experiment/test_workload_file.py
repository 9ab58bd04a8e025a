"""Test experiments whose workload is a file of the user's."""

from pathlib import Path

import pytest

from millrace.errors import UserError, ValidationError
from millrace.experiment.plan import digest
from tests.support.experiment_files import experiment_text, mistakes_of, read_text

WORKLOAD = """\
name = "mine"
title = "one table, one query"
version = 1
roles = ["server"]
default_test = "look"

[factors.engine]
default = "InnoDB"
free = true

[tables.t]
name = "t"
rows = 1000
create = "CREATE TABLE {table} (id INT PRIMARY KEY) ENGINE={engine}"
columns = [{ name = "id", kind = "sequence" }]

[statements]
look = { sql = "SELECT id FROM t WHERE id = 1" }

[tests.look]
title = "one row"
tables = "t"
steps = [{ statements = ["look"] }]

[[phases]]
name = "load"
kind = "load_tables"
[[phases]]
name = "measure"
kind = "drive"
"""


@pytest.mark.parametrize("named", ["./mine.toml", "mine.toml", "sub/../mine.toml"])
def test_workload_is_found_relative_to_the_experiment(tmp_path: Path, named: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "mine.toml").write_text(WORKLOAD)
    experiment = read_text(tmp_path, experiment_text(named))
    assert experiment.workload["statements"]["look"]["sql"] == "SELECT id FROM t WHERE id = 1"
    assert experiment.checked_workload.test_values() == set()
    assert "throughput" in experiment.checked_workload.metrics


def test_workload_is_found_by_an_absolute_path(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(WORKLOAD)
    experiment = read_text(tmp_path, experiment_text(str(tmp_path / "mine.toml")))
    assert experiment.checked_workload.name == "mine"


def test_digest_changes_when_the_workload_file_changes(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(WORKLOAD)
    before = digest(read_text(tmp_path, experiment_text("mine.toml")))
    (tmp_path / "mine.toml").write_text(WORKLOAD.replace("WHERE id = 1", "WHERE id = 2"))
    assert digest(read_text(tmp_path, experiment_text("mine.toml"))) != before


def test_missing_workload_file_is_reported_with_where_paths_start(tmp_path: Path) -> None:
    with pytest.raises(UserError) as missing:
        read_text(tmp_path, experiment_text("./none.toml"))
    assert str(tmp_path / "none.toml") in missing.value.message
    assert missing.value.hint is not None
    assert "relative to the experiment file" in missing.value.hint


def test_name_of_no_workload_hints_at_files() -> None:
    [found] = mistakes_of(experiment_text("mine"))
    assert found.expected is not None
    assert found.expected.endswith("a file of your own is a path, such as ./mine.toml")


@pytest.mark.parametrize(
    ("written", "wrong", "place", "line"),
    [
        ("version = 1", 'version = "x"', "version", 3),
        ('kind = "drive"', 'kind = "drives"', "phases[1].kind", 30),
        ("[tests.look]", "[tests.look.more]", "tests.look.title", 20),
        ("[statements]", "[[statements]]", "statements", 17),
        ('[[phases]]\nname = "load"', '[phases]\nname = "load"', "column 9", 28),
        ('title = "one row"', "title = ", "column 9", 21),
    ],
)
def test_mistake_in_a_workload_file_is_reported_with_its_line(
    tmp_path: Path, written: str, wrong: str, place: str, line: int
) -> None:
    assert written in WORKLOAD
    (tmp_path / "mine.toml").write_text(WORKLOAD.replace(written, wrong))
    with pytest.raises(ValidationError) as refused:
        read_text(tmp_path, experiment_text("mine.toml"))
    assert refused.value.source == str(tmp_path / "mine.toml")
    assert (place, line) in [(each.where, each.line) for each in refused.value.diagnostics]
