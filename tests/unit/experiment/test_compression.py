"""Test what an experiment compares where its tables are compressed."""

from __future__ import annotations

from pathlib import Path

from millrace import workloads
from millrace.workloads.defaults import with_sizes
from tests.unit.experiment.files import SMALL, read_text


def test_the_disk_space_of_a_row_is_compared_where_tables_are_compressed(tmp_path: Path) -> None:
    def metrics(levels: str) -> set[str]:
        factor = f"[factors]\ncompression = [{levels}]\n"
        made = read_text(tmp_path, SMALL.replace("[factors]\n", factor))
        return set(made.checked_workload.metrics)

    assert "bytes_per_row" in metrics('"none", "row"')
    assert "bytes_per_row" in metrics('"page-zlib"')
    assert "bytes_per_row" not in metrics('"none"')


def test_tables_that_maintenance_drops_have_no_disk_space_of_a_row() -> None:
    assert "bytes_per_row" not in with_sizes(workloads.load("drop-table"))["metrics"]
    assert "bytes_per_row" in with_sizes(workloads.load("linkbench"))["metrics"]


def test_drop_database_has_metrics_where_it_is_timed(tmp_path: Path) -> None:
    def metrics(scale: str) -> set[str]:
        text = SMALL.replace("load-data", "sysbench").replace("rows = 1000", "time_s = 1")
        made = read_text(tmp_path, f"{text}\n[scales.laptop]\n{scale}\n")
        return set(made.checked_workload.metrics)

    drops = {"drop_time", "drop_file_removal", "drop_own_work"}
    assert metrics('drop_after = "on"') >= drops
    assert drops.isdisjoint(metrics(""))
