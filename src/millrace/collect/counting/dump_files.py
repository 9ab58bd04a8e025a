"""Read the dumps that callgrind left in the directory of a server that has ended."""

import os
import stat
from pathlib import Path

from millrace.collect.counting import callgrind
from millrace.collect.counting.callgrind import ThreadDump
from millrace.errors import TrialFailed
from millrace.host import valgrind
from millrace.servers.instances.closing import close_tree, open_without_links

_MOST_FILES = 100_000
_MOST_BYTES = 1 << 30  # of all files, whose content stays in memory


def read_dumps(directory: Path) -> dict[int, dict[int, ThreadDump]]:
    """Return the dumps in a directory of a server that has ended: each one's threads, by numbers.

    Raise TrialFailed for files that callgrind does not write.
    """
    close_tree(directory)
    names = [entry.name for entry in os.scandir(directory)]
    numbered = [(numbers, name) for name in names if (numbers := valgrind.dump_of(name))]
    if len(numbered) > _MOST_FILES:
        raise TrialFailed(f"callgrind wrote {len(numbered):,} files")
    found: dict[int, dict[int, ThreadDump]] = {}
    n_bytes = 0
    for (dump, thread), name in sorted(numbered):
        try:
            with open(directory / name, "rb", opener=open_without_links) as file:
                n_bytes += _require_dump(os.fstat(file.fileno()))
                if n_bytes > _MOST_BYTES:
                    raise ValueError(f"all files so far have {n_bytes:,} bytes")
                found.setdefault(dump, {})[thread] = callgrind.parse(file)
        except (OSError, ValueError) as error:
            raise TrialFailed(f"{name}, which callgrind wrote, cannot be read: {error}") from error
    return found


def _require_dump(status: os.stat_result) -> int:
    """Return the length of a dump. Raise ValueError for what callgrind does not write."""
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is no file")
    if status.st_size > callgrind.FILE_LIMIT_BYTES:
        raise ValueError(f"it has {status.st_size:,} bytes")
    return status.st_size
