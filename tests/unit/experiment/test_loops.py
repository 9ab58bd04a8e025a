"""Test experiments whose trials drive their clients in loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.errors import ValidationError
from millrace.experiment.estimate import unmeasured_s
from millrace.experiment.model import Experiment
from millrace.experiment.plan import expand
from tests.unit.experiment.files import read_text

FILE = """\
name = "loops"
workload = "linkbench"
blocks = 1
[factors]
server = ["mysql-5.6.24", "mysql-5.7.22"]
[compare]
base = "mysql-5.6.24"
[parameters]
nodes = 1000
time_s = 100
warmup_s = 0
"""


def in_loops(directory: Path, loops: int) -> Experiment:
    return read_text(directory, f"{FILE}loops = {loops}\n")


def test_all_loops_are_compared_beside_the_last_one(tmp_path: Path) -> None:
    once, often = in_loops(tmp_path, 1).checked_workload, in_loops(tmp_path, 24).checked_workload
    assert set(often.metrics) - set(once.metrics) == {"throughput_of_loops"}
    assert once.metrics["throughput"].title == "throughput"
    assert often.metrics["throughput"].title == "throughput of the last loop"


def test_each_loop_takes_its_time(tmp_path: Path) -> None:
    times = [unmeasured_s(expand(in_loops(tmp_path, loops), seed=1)) for loops in (1, 24)]
    assert times[1] - times[0] == pytest.approx(2 * 23 * 100)


def test_slices_have_no_loops(tmp_path: Path) -> None:
    made = read_text(tmp_path, f'design = "slices"\n{FILE}loops = 2\n')
    with pytest.raises(ValidationError) as refused:
        expand(made, seed=1)
    assert "parameters.loops" in [mistake.where for mistake in refused.value.diagnostics]


def test_other_workloads_have_no_loops(tmp_path: Path) -> None:
    text = FILE.replace("linkbench", "sysbench").replace("nodes", "table_size")
    with pytest.raises(ValidationError, match="loops"):
        read_text(tmp_path, f"{text}loops = 2\n")
