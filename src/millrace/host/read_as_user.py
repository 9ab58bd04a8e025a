"""Read a file with the privileges of another user.

Problem. A build tree that is used in place may belong to any user. A symbolic link in it may point
to a file that only root can read, and the link may change between a check and the read.

Solution. The user who will see the content also reads it, in a process with that user's uid.
"""

import subprocess
from pathlib import Path

_READ_LIMIT_S = 60.0
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}


def read_as_user(path: Path, uid: int | None, *, limit_bytes: int) -> bytes:
    """Return a file's content, read as the user ``uid`` (None: as this process's user).

    Raise OSError if this user cannot read the file. Raise ValueError if it has more than
    ``limit_bytes``, or reading does not end in time (a pipe, say).
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
        raise ValueError(f"{path}: reading did not end within {_READ_LIMIT_S:.0f} s") from None
    if done.returncode != 0:
        _, _, reason = done.stderr.decode(errors="replace").strip().rpartition(": ")
        raise OSError(f"{path}: not readable by uid {uid}: {reason}")
    return done.stdout
