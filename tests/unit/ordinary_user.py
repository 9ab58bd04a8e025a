"""What the file system refuses is refused to ordinary users only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_NOBODY = 65534


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Root may write everywhere; for this block nobody is root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)
