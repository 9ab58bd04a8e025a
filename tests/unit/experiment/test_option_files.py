"""Test experiments whose configurations are option files."""

from pathlib import Path

import pytest

from millrace.errors import UserError
from millrace.experiment.plan import expand
from tests.unit.experiment.files import SMALL, mistakes_of, read_text

EXPERIMENT = (
    SMALL.replace("[compare]", 'configuration = ["default", "mine"]\n\n[compare]')
    + """
[configurations.mine]
title = "what we run"
extends = "wmf"
file = "conf/my.cnf"
[configurations.mine.options]
max_connections = 300
"""
)


def test_option_file_is_a_layer_below_the_options_written_with_it(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "my.cnf").write_text("[mysqld]\nmax_connections = 4000\nport = 1\n")
    experiment = read_text(tmp_path, EXPERIMENT)
    used = {name: each.to_json() for name, each in experiment.configurations.items()}
    assert list(used)[:4] == ["default", "mine", "mine (conf/my.cnf)", "wmf"]
    assert used["mine"]["extends"] == "mine (conf/my.cnf)"
    assert used["mine (conf/my.cnf)"]["extends"] == "wmf"
    assert used["mine (conf/my.cnf)"]["optional"] == {"max_connections": "4000"}
    assert used["mine (conf/my.cnf)"]["left_out"]["port"]["value"] == "1"
    assert used["mine"]["options"] == {"max_connections": 300}


def test_treatments_change_when_the_option_file_changes(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    ids = []
    for connections in (10, 20):
        (tmp_path / "conf" / "my.cnf").write_text(f"[mysqld]\nback_log = {connections}\n")
        plan = expand(read_text(tmp_path, EXPERIMENT), seed=1)
        ids.append({each.id for each in plan.treatments})
    assert len(ids[0] - ids[1]) == 2  # of two servers with it; those with the defaults stay


def test_missing_option_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no option file .*conf/my\.cnf"):
        read_text(tmp_path, EXPERIMENT)


def test_path_of_an_option_file_must_be_text(tmp_path: Path) -> None:
    [found] = mistakes_of(tmp_path, EXPERIMENT.replace('"conf/my.cnf"', "3"))
    assert (found.where, found.message) == ("configurations.mine.file", "is not text")
