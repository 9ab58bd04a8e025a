"""Test the owners of sockets, by the kernel's tables and on real sockets."""

import os
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.host import sockets
from millrace.host.sockets import Sockets

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:84ED 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65534        0 1486139 1 000000007e85c089 100 0 0 10 0
   1: 0100007F:84ED 0100007F:E51A 01 00000000:00000000 00:00000000 00000000 65534        0 1486200 1 00000000131028b2 20 4 30 10 -1
   2: 0100007F:90F7 0100007F:83E4 06 00000000:00000000 03:00000029 00000000     0        0 0 3 000000000585feb1
"""  # noqa: E501
UNIX = """\
Num       RefCount Protocol Flags    Type St Inode Path
000000009f767a06: 00000003 00000000 00000000 0001 03 1485776
0000000065bbcf3e: 00000003 00000000 00000000 0001 03 1485777 /work/my sql/mysqld.sock
00000000d0fbaa54: 00000002 00000000 00010000 0001 01 1486140 /work/my sql/mysqld.sock
"""


def test_listening_sockets_of_the_tables() -> None:
    assert sockets.listening_tcp(TCP) == {1486139}
    assert sockets.listening_unix(UNIX) == {1486140}
    assert sockets.listening_tcp("") == sockets.listening_unix("") == set()


def test_a_name_of_several_lines_is_no_row_of_the_table() -> None:
    named = (
        UNIX + "0000000065bbcf3e: 00000003 00000000 00000000 0001 03 7 @x\n0: 1 2 zz 4 5 6\n\n9\n"
    )
    assert sockets.listening_unix(named) == {1486140}


def test_uses() -> None:
    known = Sockets(frozenset({1}), frozenset({2}))
    found = [known.use(link) for link in ("socket:[1]", "socket:[2]", "socket:[3]", "pipe:[3]")]
    assert found == ["listening", "own", "client", None]
    assert sockets.inode_of("/tmp/socket:[1]") is None


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6, socket.AF_UNIX])
def test_a_socket_that_listens(family: socket.AddressFamily, tmp_path: Path) -> None:
    with socket.socket(family) as listener:
        where: dict[socket.AddressFamily, Any] = {
            socket.AF_UNIX: str(tmp_path / "socket"),
            socket.AF_INET: ("127.0.0.1", 0),
            socket.AF_INET6: ("::1", 0),
        }
        try:
            listener.bind(where[family])
        except OSError as error:
            pytest.skip(f"no such addresses here: {error}")
        inode = os.fstat(listener.fileno()).st_ino
        assert inode not in sockets.listening(os.getpid())
        listener.listen()
        assert inode in sockets.listening(os.getpid())


def test_the_other_ends_of_our_own_sockets(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(path)
        listener.listen()
        client.connect(path)
        server, _ = listener.accept()
        with server:
            inode = os.fstat(server.fileno()).st_ino
            assert inode in sockets.own()
            assert os.fstat(listener.fileno()).st_ino not in sockets.own()
        assert inode not in sockets.own()


def test_messages_of_the_kernel() -> None:
    # Linux 6.18's answer for two connected sockets, 1297219 and 1297218.
    body = bytes.fromhex(
        "01010100 43cb1300 01000000 00000000 0800 0200 42cb1300 0500 0600 00000000"
    )
    answer = struct.pack("=IHHII", 16 + len(body), 20, 2, 1, 7) + body
    done = struct.pack("=IHHIIi", 20, 3, 2, 1, 7, 0)
    kinds = [kind for kind, _ in sockets.messages(answer + done)]
    assert kinds == [20, 3]
    assert sockets.peer(body) == (1297219, 1297218)
    assert sockets.peer(body[:16]) is None  # not connected
    assert sockets.peer(b"") is None


@given(st.binary(max_size=200))
def test_no_answer_breaks_a_parser(answer: bytes) -> None:
    for _, body in sockets.messages(answer):
        sockets.peer(body)
    sockets.peer(answer)


@given(st.text())
def test_links_are_sockets_or_not(link: str) -> None:
    assert sockets.inode_of(link) is None or link.startswith("socket:[")
