"""A report as a file: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from millrace.errors import HostProblem


def write_text(path: Path, text: str) -> Path:
    """Write ``text`` to ``path`` in one step, making its directory; return ``path``.

    Raises HostProblem where it cannot be written; what was there before is then still there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as cause:
        raise HostProblem(
            f"cannot write the report {path}: {cause.strerror or cause}",
            remedy="name another place with --output",
        ) from cause
    return path
