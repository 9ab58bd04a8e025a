"""Read a file with the rights of another user.

Problem. A build tree that is used in place may belong to anybody. A link in it may lead to a file
that only root can read, and may be replaced between a check and the reading of the file.

Solution. A process of the user that gets the content reads it, so that the user learns nothing new.
"""

import subprocess
from pathlib import Path

_READ_LIMIT_S = 60.0
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}


def read_as_user(path: Path, uid: int | None, *, limit_bytes: int) -> bytes:
    """Return a file's content as the user ``uid`` reads it; None: as this process's user.

    Raise OSError where that user cannot, ValueError for more than ``limit_bytes`` and for a file
    whose content does not end.
    """
    if uid is None:
        with path.open("rb") as file:
            content = file.read(limit_bytes + 1)
    else:
        content = _read_by_process(path, uid, limit_bytes)
    if len(content) > limit_bytes:
        raise ValueError(f"{path}: larger than {limit_bytes:,} bytes")
    return content


def _read_by_process(path: Path, uid: int, limit_bytes: int) -> bytes:
    command = ["head", "-c", str(limit_bytes + 1), "--", str(path)]
    try:
        done = subprocess.run(
            command,
            user=uid,
            group=uid,
            extra_groups=[],
            cwd="/",
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_READ_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"{path}: its content does not end") from None
    if done.returncode != 0:
        raise OSError(f"{path}: the user {uid} cannot read it")
    return done.stdout
