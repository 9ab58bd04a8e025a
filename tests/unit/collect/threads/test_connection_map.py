"""Test which socket of a server leads to which client, on real sockets."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from millrace.collect.threads.connection_map import connection_map
from millrace.host import sockets
from millrace.loadgen.statement_activity import StatementActivity
from tests.unit.host.test_sockets import TCP
from tests.unit.loadgen.test_statement_activity import written


def test_connected_sockets_of_the_tables() -> None:
    assert sockets.accepted_tcp(TCP, 0x84ED) == {0xE51A: 1486200}
    assert sockets.accepted_tcp(TCP, 0x90F7) == {}  # the process has ended
    assert sockets.accepted_tcp("", 0x84ED) == {}


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6, socket.AF_UNIX])
def test_the_map_of_clients(family: socket.AddressFamily, tmp_path: Path) -> None:
    where: dict[socket.AddressFamily, Any] = {
        socket.AF_UNIX: str(tmp_path / "socket"),
        socket.AF_INET: ("127.0.0.1", 0),
        socket.AF_INET6: ("::1", 0),
    }
    by_port = family != socket.AF_UNIX
    with socket.socket(family) as listener, socket.socket(family) as client:
        try:
            listener.bind(where[family])
        except OSError as error:
            pytest.skip(f"no such addresses here: {error}")
        listener.listen()
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        with server:
            end = client.getsockname()[1] if by_port else os.fstat(client.fileno()).st_ino
            activity = tmp_path / "activity"
            # The first slot has no peer.
            activity.write_bytes(written((1, 0, 2), (2 if by_port else 1, 0, end)))
            port = listener.getsockname()[1] if by_port else None
            found = connection_map(StatementActivity(activity), os.getpid(), port)
            assert found == {os.fstat(server.fileno()).st_ino: 1}


def test_nobody_has_connected(tmp_path: Path) -> None:
    activity = tmp_path / "activity"
    activity.write_bytes(b"")
    assert connection_map(StatementActivity(activity), os.getpid(), 3306) == {}
