"""Test file systems of limited size: that they fill, and that nothing of them stays."""

import errno
import signal
import subprocess
import sys
import threading
from io import FileIO
from pathlib import Path

import pytest

from millrace.errors import Unavailable
from millrace.host import limited_filesystem as module
from millrace.host.limited_filesystem import limited_filesystem, require_limited_filesystem
from tests.loop_devices import is_freed, skip_without_loop_devices, uses_loop_device

SIZE = 32 << 20
MB = 1 << 20


@pytest.fixture
def place(tmp_path: Path) -> Path:
    skip_without_loop_devices(tmp_path)
    directory = tmp_path / "data"
    directory.mkdir()
    return directory


def fill(directory: Path) -> int:
    """Write until the space ends; return the bytes written."""
    written = 0
    with (directory / "file").open("wb", buffering=0) as file:
        while (part := _written(file)) is not None:
            written += part
    return written


def _written(file: FileIO) -> int | None:
    """Return the bytes written; None where the space is used up."""
    try:
        return file.write(bytes(MB))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return None


def test_it_fills_and_takes_more_when_space_is_given_back(place: Path) -> None:
    image = place.with_name("image")
    before = Path("/proc/self/ns/mnt").readlink()
    with limited_filesystem(image, place, SIZE, owner=12345) as filesystem:
        assert place.stat().st_uid == 12345
        assert list(place.iterdir()) == []
        assert uses_loop_device(image)
        filesystem.take_all_but(4 * MB)
        assert abs(filesystem.free_bytes - 4 * MB) < MB
        assert 3 * MB <= fill(place) <= 5 * MB
        filesystem.give_back()
        assert filesystem.free_bytes > 8 * MB
    assert Path("/proc/self/ns/mnt").readlink() == before
    assert list(place.iterdir()) == []
    assert list(place.parent.iterdir()) == [place]
    assert is_freed(image)


def test_only_this_thread_sees_it_and_a_failure_leaves_nothing(place: Path) -> None:
    image, directory = place.with_name("image"), Path.cwd()
    begin, end = threading.Event(), threading.Event()
    seen: list[bool] = []

    def look() -> None:
        begin.wait()
        seen.append(str(place) in Path("/proc/thread-self/mounts").read_text(encoding="utf-8"))
        end.set()

    thread = threading.Thread(target=look)
    thread.start()

    def fail() -> None:
        with limited_filesystem(image, place, SIZE):
            begin.set()
            end.wait()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    thread.join()
    assert seen == [False]
    assert Path.cwd() == directory
    assert not image.exists()
    assert is_freed(image)


def test_a_killed_process_leaves_only_its_file(place: Path) -> None:
    image = place.with_name("image")
    code = (
        "import sys, time; from pathlib import Path;"
        "from millrace.host.limited_filesystem import limited_filesystem\n"
        "with limited_filesystem(Path(sys.argv[1]), Path(sys.argv[2]), 32 << 20):\n"
        "    print('mounted', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, image, place], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "mounted\n"
        process.send_signal(signal.SIGKILL)
    assert is_freed(image)
    assert str(place) not in Path("/proc/self/mounts").read_text(encoding="utf-8")
    image.unlink()
    place.rmdir()


@pytest.mark.parametrize(
    ("missing", "said"),
    [("loop devices", "cannot mount .* here: No such file"), ("mkfs", "cannot run mkfs.ext4")],
)
def test_limited_filesystem_is_unavailable_without(
    missing: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "mkfs":
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        monkeypatch.setattr(module, "_CONTROL", tmp_path / "no-such-device")
    with pytest.raises(Unavailable, match=said) as caught:
        require_limited_filesystem(tmp_path)
    assert "as root" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []
