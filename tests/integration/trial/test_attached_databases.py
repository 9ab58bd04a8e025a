"""Test that an attached server keeps no database that a workload's statements made."""

from pathlib import Path

import pytest

from tests.conftest import InstanceOf
from tests.support.command import Place

pytestmark = pytest.mark.integration

DROPS = """
name = "drops"
workload = "drop-table"
blocks = 1

[factors]
server = ["theirs"]
drop = ["database", "tables"]

[compare]
factor = "server"
base = "theirs"

[parameters]
dropped_tables = 2
dropped_rows = 100
kept_rows = 100
time_s = 1
warmup_s = 0.1
cache_mode = "any"
"""


def test_what_a_broken_trial_left_is_dropped(tmp_path: Path, instance_of: InstanceOf) -> None:
    place = Place(tmp_path)
    file = tmp_path / "drops.toml"
    file.write_text(DROPS, encoding="utf-8")
    with instance_of("mysql-5.7.22") as ours:
        before = ours.query("SHOW DATABASES")
        ours.query("CREATE DATABASE millrace_dropped")  # as a killed millrace leaves it
        with place.attached(ours, "mysql"):
            ran = place.millrace("run", file)
        assert ran.returncode == 0, ran.stderr
        assert ours.query("SHOW DATABASES") == before
    assert [attempt.outcome for attempt in place.latest().attempts] == ["finished"] * 2
