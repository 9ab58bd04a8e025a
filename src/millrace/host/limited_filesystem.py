"""Mount a file system of limited size that disappears with the processes that use it.

The file system is an ext4 on a loop device with a sparse file. It is mounted in a private mount
namespace, so only the calling thread, and the processes and threads that it starts, see it. The
kernel frees the loop device with its last user. A killed process therefore leaves only the file
behind, in the directory of its trial.
"""

import contextlib
import fcntl
import os
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import Unavailable
from millrace.host import mounts

_CONTROL = "/dev/loop-control"
_LOOP_CTL_GET_FREE, _LOOP_CONFIGURE = 0x4C82, 0x4C0A
_LO_FLAGS_AUTOCLEAR = 4
_INFO_BYTES, _RESERVED_BYTES = 232, 64  # of struct loop_info64 and loop_config
_TRIES = 16  # another process may take the free loop device first
_BLOCK_BYTES = 4096  # the usual size; mkfs.ext4 uses 1 kB for small file systems

_PROBE_BYTES = 16 << 20
_HINT = "run millrace as root, on a host or in a container with loop devices and mkfs.ext4"


@dataclass(frozen=True)
class LimitedFilesystem:
    """A mounted file system; a ballast file can use up its free space, and release it."""

    directory: Path

    @property
    def free_bytes(self) -> int:
        """The free space for ordinary users."""
        found = os.statvfs(self.directory)
        return found.f_bavail * found.f_frsize

    def take_all_but(self, free_bytes: int) -> None:
        """Allocate a ballast file so that about ``free_bytes`` stay free. Raise OSError."""
        taken = self.free_bytes - free_bytes
        if taken > 0:
            descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, taken)
            finally:
                os.close(descriptor)

    def give_back(self) -> None:
        """Remove the ballast file."""
        self._ballast.unlink(missing_ok=True)

    @property
    def _ballast(self) -> Path:
        return self.directory / ".millrace-ballast"


@contextlib.contextmanager
def limited_filesystem(
    image: Path, directory: Path, size_bytes: int, *, owner: int | None = None
) -> Iterator[LimitedFilesystem]:
    """Mount a new file system at ``directory`` for the block.

    Only this thread, and the processes and threads that it starts in the block, see the mount. Such
    threads must end in the block. ``image`` is the path of the new sparse file; the root directory
    belongs to the uid ``owner``. Raise Unavailable if this host does not allow the mount.
    """
    with contextlib.ExitStack() as opened:
        opened.callback(image.unlink, missing_ok=True)
        _make_image(image, size_bytes)
        try:
            device, loop = _attached(image)
            opened.callback(os.close, loop)
            opened.enter_context(mounts.own())
            opened.enter_context(mounts.mounted(device, directory, "ext4"))
        except OSError as error:
            why = f"cannot mount a file system of limited size here: {error.strerror}"
            raise Unavailable(why, hint=_HINT) from error
        (directory / "lost+found").rmdir()  # MySQL would list the directory as a database
        directory.chmod(0o700)
        if owner is not None:
            os.chown(directory, owner, owner)
        yield LimitedFilesystem(directory)


def require_limited_filesystem(work_dir: Path) -> None:
    """Check that such a file system can be mounted below ``work_dir``; raise Unavailable."""
    with tempfile.TemporaryDirectory(prefix=".limited-", dir=work_dir) as name:
        directory = Path(name, "mounted")
        directory.mkdir(mode=0o700)
        with limited_filesystem(Path(name, "image"), directory, _PROBE_BYTES):
            pass


def _make_image(image: Path, size_bytes: int) -> None:
    descriptor = os.open(image, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(descriptor, size_bytes)
    finally:
        os.close(descriptor)
    command = ["mkfs.ext4", "-q", "-F", "-b", str(_BLOCK_BYTES), "-m", "0", "-E", "nodiscard"]
    try:
        made = subprocess.run([*command, image], capture_output=True, check=False)
    except OSError as error:
        raise Unavailable(f"cannot run mkfs.ext4: {error.strerror}", hint=_HINT) from error
    if made.returncode:
        said = made.stderr.decode(errors="replace").strip()[:200]
        raise Unavailable(f"mkfs.ext4 failed: {said}", hint=_HINT)


def _attached(image: Path) -> tuple[str, int]:
    """Return a loop device of the file, and the descriptor that keeps it alive. Raise OSError."""
    with contextlib.ExitStack() as opened:
        control, backing = (os.open(each, os.O_RDWR | os.O_CLOEXEC) for each in (_CONTROL, image))
        opened.callback(os.close, control)
        opened.callback(os.close, backing)
        # struct loop_config: fd, block_size, loop_info64 with 5 numbers of 64 bits and 4 of 32
        info = struct.pack("=5Q4I", 0, 0, 0, 0, 0, 0, 0, 0, _LO_FLAGS_AUTOCLEAR)
        config = struct.pack("=II", backing, 0) + info.ljust(_INFO_BYTES, b"\0")
        for left in reversed(range(_TRIES)):
            device = f"/dev/loop{fcntl.ioctl(control, _LOOP_CTL_GET_FREE)}"
            loop = os.open(device, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(loop, _LOOP_CONFIGURE, config + bytes(_RESERVED_BYTES))
            except OSError:
                os.close(loop)
                if not left:
                    raise
                continue
            return device, loop
        raise AssertionError("the last try returns or raises")
