"""Skip tests that trace the kernel's scheduler where the host cannot run them."""

import pytest

from millrace.errors import Unavailable
from millrace.host import tracing


def _reason() -> str | None:
    try:
        tracing.check()
    except Unavailable as why:
        return f"{why}; {why.hint}" if why.hint else why.message
    return None


_REASON = _reason()
needs_tracing = pytest.mark.skipif(_REASON is not None, reason=_REASON or "")
