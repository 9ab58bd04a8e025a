"""Read files that a user names: any name may stand for a device, a pipe or a huge file."""

import os
import stat
from pathlib import Path

from millrace.errors import UserError


def read_user_file(path: Path, most_bytes: int) -> bytes:
    """Return the content of a file of at most ``most_bytes``.

    Raise OSError where it cannot be opened, and UserError where it is too large, or is a device, a
    directory or a named pipe, whose reading may never end. What the shell pipes to this process
    (``/dev/stdin``, ``<(...)``) is read.
    """
    # Without waiting for a writer of a pipe.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        mode = os.fstat(handle).st_mode
        is_anonymous = stat.S_ISFIFO(mode) and not os.path.lexists(os.path.realpath(path))
        if not (stat.S_ISREG(mode) or is_anonymous):
            raise UserError(f"{path} is {_kind(mode)}", hint="name a file")
        os.set_blocking(handle, True)
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UserError(
            f"{path} is larger than {most_bytes >> 20} MiB", hint="name the file that is meant"
        )
    return content


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a named pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
