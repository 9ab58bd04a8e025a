"""Test a process of another user whose command line and environment span terabytes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.host import procfs

# prctl(PR_SET_MM, PR_SET_MM_MAP) lets every process set where /proc finds them.
PROCESS = """
import ctypes, mmap, struct, sys
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.sbrk.restype = ctypes.c_void_p
size = 1 << 36
without_reserve = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000
at = libc.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, without_reserve, -1, ctypes.c_long(0))
fields = [0] * 3 + Path("/proc/self/stat").read_text().rpartition(")")[2].split()
code, stack, data = fields[26:28], fields[28], fields[45:47]
brk = [fields[47], libc.sbrk(ctypes.c_long(0))]
words = [*code, *data, *brk, stack, at, at + size, at, at + size, 0]
map = struct.pack("=12QIi", *(int(word) for word in words), 0, -1)
result = libc.prctl(35, ctypes.c_ulong(14), map, ctypes.c_ulong(len(map)), ctypes.c_ulong(0))
print("refused" if result else "long", flush=True)
sys.stdin.read()
"""

LOOK = """
import resource
from pathlib import Path
from millrace.app import host_activity
from millrace.servers.instances import ownership, processes
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
host_activity._databases(Path("/"))
record = ownership.register("s-0a1b2c3d", server="s", role="server", directories=[])
ownership.release(record)
"""


@pytest.fixture
def long_process() -> Iterator[None]:
    """Run a process of this user with 64 GiB of arguments and 64 GiB of environment."""
    with subprocess.Popen(
        [sys.executable, "-c", PROCESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            if process.stdout.readline() != b"long\n":
                pytest.skip("this host lets no process say where its arguments lie")
            yield
        finally:
            process.kill()


@pytest.mark.usefixtures("long_process")
def test_neither_databases_nor_the_processes_of_an_instance_are_looked_for_without_end(
    child_environment: dict[str, str], tmp_path: Path
) -> None:
    looked = subprocess.run(
        [sys.executable, "-c", LOOK],
        env={**child_environment, "MILLRACE_STATE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert looked.returncode == 0, looked.stderr


def test_a_file_of_the_host_is_read_up_to_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    with file.open("wb") as writer:
        writer.truncate(1 << 26)
    raw = procfs.read(file)
    assert len(raw) == 16 << 20
