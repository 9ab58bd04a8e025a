"""Test the instance of the kernel's tracing, in a directory that resembles its file system."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from millrace.errors import Unavailable
from millrace.host import tracefs, tracing
from millrace.host.tracing import Tracing


@pytest.fixture
def instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tracefs, "_PLACES", (tmp_path / "none", tmp_path))
    monkeypatch.setattr(tracing, "_OF_THE_HOST", str(Path("/proc/self/ns/pid").readlink()))
    made = tmp_path / "instances"
    made.mkdir()
    return made


def test_an_instance_is_of_its_own_and_gone_in_the_end(
    instances: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tracing, "_write", lambda *_: None)  # a directory here stays empty
    one, other = Tracing(("sched_switch",)), Tracing(("sched_switch",))
    names = sorted(each.name for each in instances.iterdir())
    assert len(names) == 2
    assert all(name.startswith(f"millrace-{os.getpid()}-") for name in names)
    for each in (one, other):
        each.close()
        each.close()
    assert list(instances.iterdir()) == []


def test_what_a_process_that_is_gone_has_left_is_removed(
    instances: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["true"]) as process:
        gone = process.pid
    for name in (f"millrace-{gone}-0", f"millrace-{os.getppid()}-0", "somebody's"):
        (instances / name).mkdir()
    monkeypatch.setattr(Tracing, "_write", lambda *_: None)
    Tracing(()).close()
    assert sorted(each.name for each in instances.iterdir()) == sorted(
        [f"millrace-{os.getppid()}-0", "somebody's"]
    )


def test_where_processes_have_other_numbers(
    instances: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_OF_THE_HOST", "pid:[1]")
    with pytest.raises(Unavailable, match="name processes otherwise") as why:
        Tracing(())
    assert "--pid=host" in (why.value.hint or "")
    assert list(instances.iterdir()) == []


def test_where_it_may_not_be_used(instances: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(Unavailable, match="Permission denied") as why:
        Tracing(())
    assert "run millrace as root" in (why.value.hint or "")


def test_an_instance_that_cannot_be_set_up_is_removed(
    instances: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(Tracing, "_write", refuse)
    with pytest.raises(Unavailable, match="Invalid argument"):
        Tracing(())
    assert list(instances.iterdir()) == []


def test_events_are_kept_while_all_are_told(
    instances: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[str, str]] = []
    monkeypatch.setattr(Tracing, "_write", lambda _, name, text: written.append((name, text)))
    made = Tracing(("sched_switch", "sched_waking"))
    assert ("tracing_on", "0") in written
    written.clear()
    made.start()
    made.stop()
    enable = [f"events/sched/{event}/enable" for event in ("sched_switch", "sched_waking")]
    assert written == [
        *((name, "1") for name in enable),
        ("tracing_on", "1"),
        ("tracing_on", "0"),
        *((name, "0") for name in enable),
    ]


def test_events_without_room_are_counted(instances: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tracing, "_write", lambda *_: None)
    made = Tracing(())
    (directory,) = instances.iterdir()
    for cpu, lost in enumerate((3, 4)):
        place = directory / "per_cpu" / f"cpu{cpu}"
        place.mkdir(parents=True)
        (place / "stats").write_text(f"entries: 9\noverrun: {lost}\ndropped events: 1\n")
    assert made.lost() == 9
