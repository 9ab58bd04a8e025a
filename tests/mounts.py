"""Skip tests that need mounts of their own (mount namespaces) where the host forbids them."""

import os

import pytest

from millrace.host import mounts
from millrace.system_calls import in_own_thread


def _refused() -> str | None:
    """Return why this process cannot have mounts of its own."""
    if os.geteuid() != 0:
        return "only root has mounts of its own"
    try:
        in_own_thread(lambda: mounts.take_own(lambda: None, writable=[]))
    except OSError as error:
        return f"this host allows no mount namespace ({error.strerror})"
    return None


_WHY = _refused()

needs_own_mounts = pytest.mark.skipif(_WHY is not None, reason=_WHY or "")
