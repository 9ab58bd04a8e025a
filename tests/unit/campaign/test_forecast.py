"""Test the estimate of a plan on this host, some of whose servers run elsewhere."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from millrace.campaign.forecast import blocks_in_time, forecast_here, refuse_without_space
from millrace.cli.main import cli
from millrace.errors import HostError
from millrace.experiment.estimate import RESERVE_BYTES, Estimate
from tests.support.experiment_files import experiment_text, written
from tests.support.laboratory import attach_a_server, plan_of


@pytest.fixture(autouse=True)
def _an_attached_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attach_a_server(tmp_path, monkeypatch)


def text_of(*servers: str) -> str:
    parameters = {"table_size": 1_000_000_000}
    factors = {"test": ["oltp_read_write"]}
    return experiment_text("sysbench", servers=servers, factors=factors, parameters=parameters)


def forecast(directory: Path, *servers: str) -> Estimate:
    """Return the estimate on a host with 1 GB of free space."""
    plan = plan_of(directory, text_of(*servers))
    return replace(forecast_here(plan, None), host_free_bytes=2 * RESERVE_BYTES)


def test_tables_of_an_attached_server_need_no_space_here(tmp_path: Path) -> None:
    found = forecast(tmp_path, "theirs")
    assert found.peak_disk_bytes == 0
    refuse_without_space(found)


def test_servers_that_millrace_starts_need_space_beside_an_attached_one(tmp_path: Path) -> None:
    found = forecast(tmp_path, "theirs", "mysql-5.7.22")
    assert found.peak_disk_bytes > 100e9
    with pytest.raises(HostError, match=r"mysql-5\.7\.22.* needs about"):
        refuse_without_space(found)


def test_plan_reports_unknown_space_of_attached_servers(tmp_path: Path) -> None:
    file = written(tmp_path, text_of("theirs"))
    store = str(tmp_path / "none.sqlite")
    result = CliRunner().invoke(cli, ["plan", str(file), "--store", store], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "not known: millrace does not see the disks of attached servers" in result.stdout


@pytest.mark.parametrize(
    ("limit_s", "blocks"), [(None, 10), (50, 0), (200, 3), (249, 3), (250, 4), (549, 9), (1e4, 10)]
)
def test_tables_that_are_made_once_take_no_time_of_later_blocks(
    tmp_path: Path, limit_s: float | None, blocks: int
) -> None:
    plan = plan_of(tmp_path, text_of("theirs"))
    plan = replace(plan, experiment=replace(plan.experiment, max_time_s=limit_s))
    # 50 s for tables, and 50 s a block.
    found = replace(forecast_here(plan, None), time_s=550.0, least_time_s=200.0)
    assert blocks_in_time(plan, found) == blocks
