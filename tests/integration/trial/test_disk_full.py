"""Test a disk that fills up while a server loads.

The trial fails with that reason and the plan continues; a campaign ends there, and resumes when
there is space again.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from millrace.servers.instances import ownership
from tests.support.called import millrace
from tests.support.command import Place, experiment

pytestmark = pytest.mark.integration

DISK_BYTES = 1_100_000_000  # the plan fits, with its reserve
ROWS = 250_000  # of some 20 MB
LEFT_TO_START_BYTES = 450_000_000  # of which a server needs some 300 MB before it loads
LEFT_TO_LOAD_BYTES = 8_000_000


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Mount a filesystem in memory of its own size; only root can do so."""
    directory = Path(tempfile.mkdtemp(prefix="mr-disk-", dir="/tmp"))
    directory.chmod(0o755)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=755", "tmpfs", str(directory)],
        capture_output=True,
        check=False,
    )
    try:
        if mounted.returncode != 0:
            pytest.skip("mounting a small filesystem needs root")
        yield directory
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)
        directory.rmdir()


def fill(file: Path, left_bytes: int) -> None:
    """Let ``file`` grow until ``left_bytes`` are left, whatever others write meanwhile."""
    chunk = 64 << 20
    with file.open("ab") as filler:
        while chunk >= 1 << 20:
            status = os.statvfs(file.parent)
            if status.f_bavail * status.f_frsize - left_bytes >= chunk:
                with suppress(OSError):
                    os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), chunk)
                    continue
            chunk //= 2


def fill_while_loading(place: Place, process: subprocess.Popen[str], filler: Path) -> None:
    """Fill the disk in two steps, so that the second is over soon after the server started."""
    place.wait_for_step("prepare", process)
    fill(filler, LEFT_TO_START_BYTES)
    place.wait_for_step("record", process)
    fill(filler, LEFT_TO_LOAD_BYTES)


@pytest.fixture
def place(tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a place whose servers are on the small disk, also those of this process."""
    monkeypatch.setenv("MILLRACE_WORK", str(small_disk / "work"))
    place = Place(tmp_path)
    monkeypatch.setenv("MILLRACE_STORE", str(place.store))
    return place


@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM"])
def test_a_full_disk_fails_the_trial_and_the_plan_goes_on(
    place: Place, small_disk: Path, engine: str
) -> None:
    file = experiment(place.directory, rows=ROWS, blocks=2, factors={"engine": [engine]})
    filler = small_disk / "filler"
    with place.running("run", file) as process:
        fill_while_loading(place, process, filler)
        place.wait_for_step("prepare", process, after=1)
        filler.unlink()
        output, _ = process.communicate(timeout=240)
    assert process.returncode == 3, output
    failed, finished = place.latest().attempts
    assert (failed.outcome, finished.outcome) == ("failed", "finished"), output
    text = f"{failed.reason} {failed.log_tail}".lower()
    assert "full" in text or "no space left" in text
    assert ownership.running() == []


def test_a_full_disk_ends_a_search_and_counts_against_no_server(
    place: Place, small_disk: Path
) -> None:
    file = experiment(place.directory, rows=ROWS, factors={"engine": ["InnoDB"]})
    servers = ["mysql-5.6.24", "mysql-5.7.22"]
    command = (
        "bisect", "--good", servers[0], "--bad", servers[1], "--among", ",".join(servers),
        "--workload", file, "--max-time", "1s",
    )  # fmt: skip
    filler = small_disk / "filler"
    with place.running(*command) as process:
        fill_while_loading(place, process, filler)
        output, _ = process.communicate(timeout=240)
    assert process.returncode == 4, output
    assert "could not be measured: failed at" in output
    assert "the same command resumes" in output
    filler.unlink()
    again = millrace(*command)
    assert again.returncode == 0, again.stderr
    assert "not found yet, after 1 trial" in again.stdout
    stored = place.latest()
    assert [each.outcome for each in stored.attempts] == ["interrupted", "finished"]
    assert len(stored.trials) == 1
    assert ownership.running() == []


@pytest.mark.usefixtures("small_disk")
def test_a_disk_that_cannot_hold_the_data_is_refused_before(place: Place) -> None:
    file = experiment(place.directory, rows=50_000_000)
    for command in ("plan", "run"):
        refused = millrace(command, file)
        assert refused.returncode == 4, refused.stderr
        assert "are free" in refused.stderr
        assert "MILLRACE_WORK" in refused.stderr
    assert not place.store.exists() or millrace("results", "list").returncode == 0
