"""Test ``millrace run`` of clients in loops: a kill in one of them, and the next command."""

import time
from pathlib import Path

import pytest

from millrace.model.events import LoopEnded
from millrace.servers.instances import ownership
from millrace.servers.snapshots import kept_data
from tests.event_files import read_events
from tests.support.command import EVENT_LIMIT_S, Place

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once", "settled_soon")]

LOOPS = 4
TEXT = f"""\
name = "loops"
workload = "linkbench"
blocks = 1
seed = 1
collectors = []
[factors]
server = ["mysql-5.7.22"]
partitions = [0]
clients = [2]
[compare]
factor = "server"
base = "mysql-5.7.22"
[parameters]
nodes = 1000
max_links = 50
loops = {LOOPS}
time_s = 1.5
warmup_s = 0.1
settle_s = 0.3
drop_after = "on"
"""


def test_a_killed_run_goes_on_with_the_loop_that_it_was_in(tmp_path: Path) -> None:
    place = Place(tmp_path)
    file = tmp_path / "loops.toml"
    file.write_text(TEXT, encoding="utf-8")
    with place.running("run", file) as process:
        ended = wait_for_loop(place, 2)
        process.kill()
        process.communicate()
    (left,) = ownership.running()
    assert left.kept is not None
    again = place.millrace("run", file)
    assert again.returncode == 0, again.stderr
    assert "its data is kept for its trial" in again.stderr
    stored = place.latest()
    interrupted, finished = stored.attempts
    assert (interrupted.outcome, finished.outcome) == ("interrupted", "finished")
    assert [each.loop for each in finished.loops] == [1, 2, 3, 4]
    (cold,) = [each.loop for each in finished.loops if each.restarted_cold]
    assert cold > len(ended)
    assert f"loop {cold} of {LOOPS}" in again.stderr
    assert f"loop {cold - 1} of {LOOPS}" not in again.stderr
    assert all(each.transactions and each.allocated_bytes for each in finished.loops)
    assert finished.measured["drop_s"] > 0
    assert ownership.running() == []
    assert kept_data.all_kept() == []


def wait_for_loop(place: Place, loop: int) -> list[LoopEnded]:
    """Return the ended loops once that of this number has ended."""
    deadline = time.monotonic() + EVENT_LIMIT_S
    while time.monotonic() < deadline:
        found = [
            event
            for path in (place.directory).rglob("*.jsonl")
            for event in read_events(path)
            if isinstance(event, LoopEnded)
        ]
        if any(event.loop == loop for event in found):
            return found
        time.sleep(0.02)
    raise AssertionError("the loop did not end")
