"""Test the instance of the kernel's tracing, in a directory that resembles its file system."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from millrace.errors import Unavailable
from millrace.host import tracing
from millrace.host.tracing import Tracing
from tests.support.ordinary_user import as_ordinary_user
from tests.traced import needs_tracing

# The child sees no tracing file system, whatever this host has mounted.
IN_FRESH_NAMESPACE = """
import contextlib, os, signal, subprocess, sys
from pathlib import Path
from millrace.host.tracing import Tracing

assert not any(line.split()[2] == "tracefs" for line in open("/proc/self/mounts"))
tracing = Tracing(("sched_switch",))
if sys.argv[1] == "die":
    print(tracing._directory.name, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
tracing.start()
subprocess.run(["true"])
tracing.stop()
text = tracing.text()
lost = tracing.lost()
tracing.close()
assert not any(line.split()[2] == "tracefs" for line in open("/proc/self/mounts"))
assert not any("tracefs" in os.readlink(f"/proc/self/fd/{fd}") for fd in (3, 4, 5)
               if os.path.islink(f"/proc/self/fd/{fd}"))
print(text.count("sched_switch: prev_comm="), lost)
"""


@pytest.fixture
def instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tracing, "_PLACES", (tmp_path / "none", tmp_path))
    monkeypatch.setattr(tracing, "_OF_THE_HOST", str(Path("/proc/self/ns/pid").readlink()))
    made = tmp_path / "instances"
    made.mkdir()
    return made


@pytest.fixture
def unwritten(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return what is written to files of an instance, whose directory here stays empty."""
    written: list[tuple[str, str]] = []
    monkeypatch.setattr(Tracing, "_write", lambda _, name, text: written.append((name, text)))
    return written


@pytest.mark.usefixtures("unwritten")
def test_an_instance_is_of_its_own_and_gone_in_the_end(instances: Path) -> None:
    one, other = Tracing(("sched_switch",)), Tracing(("sched_switch",))
    names = sorted(each.name for each in instances.iterdir())
    assert len(names) == 2
    assert all(name.startswith(f"millrace-{os.getpid()}-") for name in names)
    for each in (one, other):
        each.close()
        each.close()
    assert list(instances.iterdir()) == []


@pytest.mark.usefixtures("unwritten")
def test_what_a_process_that_is_gone_has_left_is_removed(instances: Path) -> None:
    with subprocess.Popen(["true"]) as process:
        gone = process.pid
    for name in (f"millrace-{gone}-0", f"millrace-{os.getppid()}-0", "somebody's"):
        (instances / name).mkdir()
    Tracing(()).close()
    assert sorted(each.name for each in instances.iterdir()) == sorted(
        [f"millrace-{os.getppid()}-0", "somebody's"]
    )


def test_where_processes_have_other_numbers(
    instances: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_OF_THE_HOST", "pid:[1]")
    with pytest.raises(Unavailable, match="other process ids") as why:
        Tracing(())
    assert "--pid=host" in (why.value.hint or "")
    assert list(instances.iterdir()) == []


@pytest.mark.parametrize(
    ("owner", "name", "error", "hint"),
    [
        (Path, "mkdir", PermissionError(13, "Permission denied"), "run millrace as root"),
        (Tracing, "_write", OSError(22, "Invalid argument"), ""),
    ],
)
def test_an_instance_that_cannot_be_made_or_set_up_is_unavailable(
    instances: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    error: OSError,
    hint: str,
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(owner, name, refuse)
    with pytest.raises(Unavailable, match=error.strerror) as why:
        Tracing(())
    assert hint in (why.value.hint or "")
    assert list(instances.iterdir()) == []


@pytest.mark.usefixtures("instances")
def test_recording_starts_after_all_events_are_enabled(unwritten: list[tuple[str, str]]) -> None:
    made = Tracing(("sched_switch", "sched_waking"))
    assert ("tracing_on", "0") in unwritten
    unwritten.clear()
    made.start()
    made.stop()
    enable = [f"events/sched/{event}/enable" for event in ("sched_switch", "sched_waking")]
    assert unwritten == [
        *((name, "1") for name in enable),
        ("tracing_on", "1"),
        ("tracing_on", "0"),
        *((name, "0") for name in enable),
    ]


@pytest.mark.usefixtures("unwritten")
def test_events_without_room_are_counted(instances: Path) -> None:
    made = Tracing(())
    (directory,) = instances.iterdir()
    for cpu, lost in enumerate((3, 4)):
        place = directory / "per_cpu" / f"cpu{cpu}"
        place.mkdir(parents=True)
        (place / "stats").write_text(f"entries: 9\noverrun: {lost}\ndropped events: 1\n")
    assert made.lost() == 9


def in_fresh_namespace(
    environment: Mapping[str, str], what: str
) -> subprocess.CompletedProcess[str]:
    """Run a process in which no tracing file system is mounted, and return its output."""
    unmount = 'umount --all --types tracefs; exec "$@"'
    wrapper = ["unshare", "--mount", "--propagation", "private", "sh", "-c", unmount, "sh"]
    child = [sys.executable, "-c", IN_FRESH_NAMESPACE, what]
    return subprocess.run(
        [*wrapper, *child], env=environment, capture_output=True, text=True, check=False
    )


def descriptors() -> list[str]:
    return sorted(each.name for each in Path("/proc/self/fd").iterdir())


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a kernel that can trace, with its file system at none of the usual places."""
    monkeypatch.setattr(tracing, "_is_supported", lambda: True)
    monkeypatch.setattr(tracing, "_PLACES", (tmp_path / "none", tmp_path / "neither"))
    monkeypatch.setattr(tracing, "_OF_THE_HOST", str(Path("/proc/self/ns/pid").readlink()))


@needs_tracing
def test_root_traces_where_nothing_is_mounted(child_environment: Mapping[str, str]) -> None:
    ran = in_fresh_namespace(child_environment, "trace")
    assert ran.returncode == 0, ran.stderr
    events, lost = map(int, ran.stdout.split())
    assert events > 0
    assert lost == 0


@needs_tracing
def test_a_killed_process_leaves_no_mount_and_an_instance_until_the_next(
    child_environment: Mapping[str, str], nowhere: None
) -> None:
    ran = in_fresh_namespace(child_environment, "die")
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    left = ran.stdout.strip()
    assert left.startswith("millrace-")
    with tracing.opened_tracefs() as place:
        assert left in {each.name for each in (place / "instances").iterdir()}
        Tracing(()).close()
        assert left not in {each.name for each in (place / "instances").iterdir()}


@needs_tracing
def test_no_descriptor_is_left(nowhere: None) -> None:
    before = descriptors()
    made = Tracing(("sched_switch",))
    assert len(descriptors()) == len(before) + 1
    for _ in range(2):
        made.close()
    tracing.check()
    assert descriptors() == before


@pytest.mark.usefixtures("nowhere")
def test_a_user_is_given_the_command() -> None:
    with as_ordinary_user(), pytest.raises(Unavailable, match="permission denied") as why:
        Tracing(())
    user = os.geteuid() or 65534
    place = tracing._PLACES[0]
    assert why.value.hint == f"sudo mount -t tracefs -o uid={user},mode=700 tracefs {place}"


def test_a_kernel_without_tracing_has_no_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_PLACES", (tmp_path / "none",))
    monkeypatch.setattr(tracing, "_TRACEFS", "a file system that no kernel has")
    monkeypatch.setattr(tracing, "_OF_THE_HOST", str(Path("/proc/self/ns/pid").readlink()))
    with pytest.raises(Unavailable, match="does not support event tracing") as why:
        tracing.check()
    assert why.value.hint is None


@pytest.mark.usefixtures("nowhere")
def test_a_refused_mount_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels before 5.2 lack this call; containers forbid it."""
    monkeypatch.setattr(tracing, "_FSOPEN", 100_000)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(Unavailable, match="Function not implemented") as why:
        tracing.check()
    assert (why.value.hint or "").startswith("sudo mount -t tracefs tracefs ")


@pytest.mark.usefixtures("nowhere")
def test_a_place_that_is_closed_to_a_user_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "closed"
    (place / "instances").mkdir(parents=True)
    place.chmod(0o700)
    monkeypatch.setattr(tracing, "_PLACES", (place,))
    with as_ordinary_user(), pytest.raises(Unavailable, match="permission denied"):
        Tracing(())
