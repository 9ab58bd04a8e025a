"""Call use cases as this command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from millrace.app.execution import Caller
from millrace.cli.event_text import event_line
from millrace.cli.progress import Listener


@contextmanager
def calling() -> Iterator[Caller]:
    """Yield the caller of a use case: the command as it was given, and events on stderr."""
    with Listener(event_line) as listener:
        yield Caller(shlex.join(["millrace", *sys.argv[1:]]), listener)
