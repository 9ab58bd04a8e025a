"""Make directories so deep that no path reaches the innermost."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def deep(directory: Path, levels: int, name: str = "level") -> Iterator[None]:
    """Make levels of directories below one, which is removed at the end."""
    at = os.open(directory, os.O_RDONLY)
    try:
        for _ in range(levels):
            os.mkdir(name, dir_fd=at)
            below = os.open(name, os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        yield
    finally:
        os.close(at)
        subprocess.run(["rm", "-rf", directory], check=True)  # which needs no paths
