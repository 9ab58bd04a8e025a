"""Test a disk that fills up while a server loads.

The trial fails with that reason and the plan continues; a campaign ends there, and resumes when
there is space again.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.servers.instances import ownership
from tests.integration.trial.command import Place, experiment

pytestmark = pytest.mark.integration

DISK_BYTES = 1_600_000_000  # the plan fits, with its reserve


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


def fill(file: Path) -> None:
    """Fill the disk to the last byte: most of it at once, then the rest as space appears."""
    status = os.statvfs(file.parent)
    most = int(0.9 * status.f_bavail * status.f_frsize)
    block = bytes(1 << 20)
    with file.open("wb", buffering=0) as filler:
        os.posix_fallocate(filler.fileno(), 0, most)
        filler.seek(most)
        try:
            while filler.write(block):
                pass
        except OSError:
            return


@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM"])
def test_a_full_disk_fails_the_trial_and_the_plan_goes_on(
    tmp_path: Path, small_disk: Path, engine: str
) -> None:
    place = Place(tmp_path, {"MILLRACE_WORK": str(small_disk / "work")})
    file = experiment(tmp_path, rows=3_000_000, blocks=2, factors={"engine": [engine]})
    filler = small_disk / "filler"
    with place.running("run", file) as process:
        place.wait_for_step("measure", process)
        time.sleep(0.3)
        fill(filler)
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
    tmp_path: Path, small_disk: Path
) -> None:
    place = Place(tmp_path, {"MILLRACE_WORK": str(small_disk / "work")})
    file = experiment(tmp_path, rows=3_000_000, factors={"engine": ["InnoDB"]})
    servers = ["mysql-5.6.24", "mysql-5.7.22"]
    command = (
        "bisect", "--good", servers[0], "--bad", servers[1], "--among", ",".join(servers),
        "--workload", file, "--max-time", "1s",
    )  # fmt: skip
    filler = small_disk / "filler"
    with place.running(*command) as process:
        place.wait_for_step("measure", process)
        time.sleep(0.3)
        fill(filler)
        output, _ = process.communicate(timeout=240)
    assert process.returncode == 4, output
    assert "could not be measured: failed at" in output
    assert "the same command resumes" in output
    filler.unlink()
    again = place.millrace(*command)
    assert again.returncode == 0, again.stderr
    assert "not found yet, after 1 trial" in again.stdout
    stored = place.latest()
    assert [each.outcome for each in stored.attempts] == ["interrupted", "finished"]
    assert len(stored.trials) == 1
    assert ownership.running() == []


def test_a_disk_that_cannot_hold_the_data_is_refused_before(
    tmp_path: Path, small_disk: Path
) -> None:
    place = Place(tmp_path, {"MILLRACE_WORK": str(small_disk / "work")})
    file = experiment(tmp_path, rows=50_000_000)
    for command in ("plan", "run"):
        refused = place.millrace(command, file)
        assert refused.returncode == 4, refused.stderr
        assert "cannot hold" in refused.stderr
        assert "MILLRACE_WORK" in refused.stderr
    assert not place.store.exists() or place.millrace("results", "list").returncode == 0
