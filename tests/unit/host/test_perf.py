"""Test that the perf that reads a recording has temporary files and mounts of its own."""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.host import mounts, perf
from millrace.system_calls import in_own_thread
from tests.mounts import needs_own_mounts

pytestmark = needs_own_mounts

TMP = Path("/tmp")
NOBODY = 65534

ENTER = """
import ctypes, os
try:
    mounts = os.open("/proc/{pid}/ns/mnt", os.O_RDONLY)
    print("entered" if ctypes.CDLL(None).setns(mounts, 0) == 0 else "refused")
except PermissionError:
    print("refused")
"""


def output(*argv: str) -> str:
    process = perf.popen_isolated(argv, pass_fds=[], env={"PATH": os.environ["PATH"]})
    return process.communicate(timeout=60)[0].decode()


def asked(program: str) -> str:
    return output(sys.executable, "-I", "-c", program)


@pytest.fixture
def name() -> Iterator[str]:
    name = f"perf-{secrets.randbelow(1 << 30) + (1 << 30)}.map"
    yield name
    (TMP / name).unlink(missing_ok=True)


@pytest.mark.parametrize("kind", ["file", "link", "pipe"])
def test_a_file_that_somebody_planted_is_not_there(name: str, kind: str) -> None:
    match kind:
        case "file":
            (TMP / name).touch()
        case "link":
            (TMP / name).symlink_to("/etc/passwd")
        case _:
            os.mkfifo(TMP / name)
    assert name not in asked("import os; print(os.listdir('/tmp'))")


def test_directories_of_this_user_are_there_and_those_of_others_are_not() -> None:
    with (
        tempfile.TemporaryDirectory(dir=TMP) as own,
        tempfile.TemporaryDirectory(dir=TMP) as others,
    ):
        os.chown(others, NOBODY, NOBODY)
        (Path(own) / "server").write_text("a program")
        seen = asked(f"import os; print(os.listdir('/tmp'), os.listdir({own!r}))")
    assert Path(own).name in seen
    assert "server" in seen
    assert Path(others).name not in seen


def test_it_does_not_go_over_to_mounts_of_another_process() -> None:
    def start() -> subprocess.Popen[bytes]:
        mounts.take_own(lambda: None, writable=[])
        return subprocess.Popen(["sleep", "600"])

    other = in_own_thread(start)
    try:
        assert asked(ENTER.format(pid=other.pid)) == "refused\n"
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()


def test_it_writes_temporary_files_alone(tmp_path: Path, name: str) -> None:
    made = tmp_path / "made"
    assert asked(f"print(open('/tmp/{name}', 'w').write('code'))") == "4\n"
    assert asked(f"open({str(made)!r}, 'w')") == ""
    assert not (TMP / name).exists()
    assert not made.exists()


def test_the_mounts_of_this_process_stay_as_they_are() -> None:
    before = Path("/proc/self/mountinfo").read_bytes()
    asked("")
    assert Path("/proc/self/mountinfo").read_bytes() == before


def test_it_starts_where_the_host_allows_no_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(mounts, "take_own", refuse)
    assert output("echo", "started") == "started\n"
