"""A report as a file: whole or not at all; into a device or a pipe as it comes."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from millrace import whole_file
from millrace.errors import HostProblem, UserError


def write_text(path: Path, text: str, *, make_directory: bool = False) -> Path:
    """Write ``text`` to ``path`` and return it.

    A file, or what a symbolic link leads to, is written in one step: where that fails, what was
    there before is still there. A device, a pipe and our own standard output are written to.
    Raises UserError where its directory is missing, unless that is to be made, and HostProblem
    where it cannot be written.
    """
    try:
        if _is_stream(path):
            # A reader that has gone (`| head`) has what it wanted.
            with suppress(BrokenPipeError), path.open("a", encoding="utf-8", newline="") as stream:
                stream.write(text)
            return path
        target = Path(os.path.realpath(path))
        if not make_directory and not target.parent.is_dir():
            raise UserError(
                f"cannot write the report {path}: there is no directory {target.parent}",
                remedy="make it first, or name another place with --output",
            )
        whole_file.write_text(target, text)
    except OSError as cause:
        raise HostProblem(
            f"cannot write the report {path}: {cause.strerror or cause}",
            remedy="name another place with --output",
        ) from cause
    return path


def _is_stream(path: Path) -> bool:
    """Whether there is something that no file may take the place of."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not stat.S_ISREG(found.st_mode) or _is_standard_output(found)


def _is_standard_output(found: os.stat_result) -> bool:
    """Whether it is a file that the shell has opened for us (``--output /dev/stdout >> log``)."""
    try:
        return os.path.samestat(found, os.fstat(1))
    except OSError:
        return False  # closed
