"""Read files that a user names, which may be devices, pipes or huge files."""

import os
import stat
from pathlib import Path

from millrace.errors import UserError


def read_user_file(path: Path, most_bytes: int) -> bytes:
    """Return the content of a file of at most ``most_bytes``.

    Raise OSError if the file cannot be opened. Raise UserError if it is too large, or is a device,
    a directory or a named pipe, because reading these may never end. Anonymous pipes of the shell
    (``/dev/stdin``, ``<(...)``) are allowed.
    """
    # O_NONBLOCK: do not wait for the writer of a named pipe.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        mode = os.fstat(handle).st_mode
        is_anonymous = stat.S_ISFIFO(mode) and not os.path.lexists(os.path.realpath(path))
        if not (stat.S_ISREG(mode) or is_anonymous):
            raise UserError(f"{path} is {_kind(mode)}", hint="name a regular file")
        os.set_blocking(handle, True)
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UserError(
            f"{path} is larger than {most_bytes >> 20} MiB", hint="check the file's name"
        )
    return content


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a named pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
