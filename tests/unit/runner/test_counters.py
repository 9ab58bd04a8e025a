"""How the server's counters are asked for."""

from __future__ import annotations

import io
from typing import cast

from millrace.runner.counters import counters_of
from millrace.servers.asking import ASK_LIMIT_S
from millrace.servers.attached import AttachedInstance


def test_the_server_is_asked_with_a_limit_of_time() -> None:
    limits = []

    class Server:
        def connect(self, *, limit_s: float | None = None) -> io.StringIO:
            limits.append(limit_s)
            return io.StringIO()  # like a session, it can be closed

    with counters_of(cast(AttachedInstance, Server())):
        pass
    assert limits == [ASK_LIMIT_S]
