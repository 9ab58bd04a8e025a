"""Test trials that fill the disk of a real server, on a loop device that is gone afterwards."""

from pathlib import Path

import pytest

from millrace.servers.instances import ownership
from tests.loop_devices import is_freed, skip_without_loop_devices
from tests.support.command import Place

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once")]

SERVER = "mariadb-10.11.19"

FILE = f"""
name = "full"
workload = "full-disk"
blocks = 1
collectors = []
[factors]
server = ["{SERVER}"]
filled_by = ["inserts"]
[compare]
factor = "server"
base = "{SERVER}"
[parameters]
free_mb = 8
full_s = 1
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    skip_without_loop_devices(tmp_path)
    place = Place(tmp_path)
    (tmp_path / "full.toml").write_text(FILE, encoding="utf-8")
    return place


def test_a_full_disk_is_a_result_and_a_killed_run_leaves_nothing(place: Place) -> None:
    file = place.directory / "full.toml"
    with place.running("run", file) as process:
        place.wait_for_step("fill", process)
        process.kill()
        process.communicate()
    [left] = ownership.running()
    images = [Path(directory) / "disk.image" for directory in left.directories]
    assert any(image.exists() for image in images)

    done = place.millrace("run", file)
    assert done.returncode == 0, done.stderr
    assert left.id in done.stderr
    assert "When the disk was full" in done.stdout
    assert ownership.running() == []
    killed, attempt = place.latest().attempts
    assert killed.outcome == "interrupted"
    assert attempt.outcome == "finished"
    fact = attempt.facts.full_disk
    assert fact is not None
    assert fact.trouble is not None
    assert fact.committed_rows >= 16_000
    assert (fact.lost_rows, fact.unreadable) == (0, None)
    assert [step.name for step in attempt.steps][-3:] == ["fill", "restart", "compare_rows"]
    assert attempt.measured["longest_outage_s"] > 0
    for image in images:
        assert not image.exists()
        assert is_freed(image)
