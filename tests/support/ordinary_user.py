"""Run code as an ordinary user, since the file system refuses root nothing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

NOBODY = 65534


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Drop root's rights for this block: root may write everywhere."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)
