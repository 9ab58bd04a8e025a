"""Serve enough of MySQL's protocol to let a client in, and then attack it.

The server listens on 127.0.0.1, takes any password, and answers every statement, except settings,
with its ``Answer``. Its ``Login`` sets the handshake. ``obtained`` holds data that clients should
have kept secret, and ``logins`` the packets with which they logged in.
"""

import itertools
import os
import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from millrace.model.servers import AttachedServer
from millrace.servers.attached import AttachedInstance

# Long passwords, a database at login, local files, the protocol of 4.1, transactions, secure
# connections, plugins of authentication.
_CAPABILITIES = 0x1 | 0x8 | 0x80 | 0x200 | 0x2000 | 0x8000 | 0x80000
_TLS = 0x800
_TLS_REQUEST_BYTES = 32
_OK = b"\x00\x00\x00\x02\x00\x00\x00"
_EOF = b"\xfe\x00\x00\x02\x00"
_QUIT = b"\x01"
_CLIENT_LIMIT_S = 10

# Column types that clients convert to other values.
TEXT, WHOLE, DOUBLE, DECIMAL, DATE = 0xFD, 0x08, 0x05, 0xF6, 0x0A

# From the text of a statement to the packets of its answer.
Answer = Callable[[str], Iterable[bytes]]


@dataclass
class HostileServer:
    """A hostile server: its address, and the statements and data that it got from its clients."""

    port: int
    obtained: list[bytes] = field(default_factory=list)
    logins: list[bytes] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"mysql://root:secret@127.0.0.1:{self.port}/"

    @property
    def attached(self) -> AttachedInstance:
        """A new client of millrace's."""
        return AttachedInstance(AttachedServer("theirs", "mysql", self.address))


@dataclass(frozen=True)
class Login:
    """A handshake: the plugin of its greeting, and the packets ``wants`` that it requests first.

    With ``tls`` it supports TLS."""

    plugin: bytes = b"mysql_native_password"
    wants: tuple[bytes, ...] = ()
    tls: ssl.SSLContext | None = None


def asks_for_file(path: str) -> Answer:
    """Answer with a request for a file of the client."""
    return says(b"\xfb" + path.encode())


def answers(*cells: bytes | None, n_columns: int | None = None) -> Answer:
    """Answer with one row; ``n_columns`` announces another number of columns than it has."""
    columns = len(cells) if n_columns is None else n_columns
    row = b"".join(b"\xfb" if cell is None else bytes([len(cell)]) + cell for cell in cells)
    return says(bytes([columns]), *[_column()] * columns, _EOF, row, _EOF)


def rows(names: Sequence[str], *found: Sequence[bytes | None], kind: int = TEXT) -> list[bytes]:
    """Return the packets of a result with these columns, all of the type ``kind``, and rows."""
    cells = (b"".join(b"\xfb" if each is None else _counted(each) for each in row) for row in found)
    columns = [_column(name.encode(), kind) for name in names]
    return [bytes([len(names)]), *columns, _EOF, *cells, _EOF]


def answers_without_end(cell: bytes) -> Answer:
    """Answer with rows of one column until the client leaves."""
    row = bytes([len(cell)]) + cell
    return lambda _sql: itertools.chain([b"\x01", _column(), _EOF], itertools.repeat(row))


def says(*packets: bytes) -> Answer:
    """Answer with these packets."""
    return lambda _sql: packets


@contextmanager
def serving(
    answer: Answer, login: Login = Login(), *, place: Path | None = None, uid: int | None = None
) -> Iterator[HostileServer]:
    """Serve until the block ends, on 127.0.0.1 or at the socket ``place``.

    There, the kernel reports the user ``uid`` as the listener."""

    class Handler(socketserver.BaseRequestHandler):
        request: socket.socket

        def handle(self) -> None:
            self.request.settimeout(_CLIENT_LIMIT_S)
            if place is None:
                self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(OSError, EOFError):
                client = _let_in(self.request, login, server.logins)
                _converse(client, answer, server)

    with _listener(Handler, place, uid) as listener:
        server = HostileServer(_port(listener))
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()


def _listener(
    handler: type[socketserver.BaseRequestHandler], place: Path | None, uid: int | None
) -> socketserver.ThreadingTCPServer | socketserver.ThreadingUnixStreamServer:
    if place is None:
        return socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
    listener = socketserver.ThreadingUnixStreamServer(str(place), handler, bind_and_activate=False)
    listener.server_bind()
    user = os.geteuid()
    os.seteuid(user if uid is None else uid)
    try:
        listener.server_activate()
    finally:
        os.seteuid(user)
    return listener


def _port(listener: socketserver.TCPServer | socketserver.UnixStreamServer) -> int:
    address = listener.server_address
    return address[1] if isinstance(address, tuple) else 0


def _let_in(client: socket.socket, login: Login, logins: list[bytes]) -> socket.socket:
    """Greet a client and accept any login; return the connection."""
    _send(client, 0, _greeting(login))
    response, number = _receive(client), 2
    if login.tls is not None and len(response) == _TLS_REQUEST_BYTES:
        client = login.tls.wrap_socket(client, server_side=True)
        response, number = _receive(client), 3
    logins.append(response)
    for wish in login.wants:
        _send(client, number, wish)
        logins.append(_receive(client))
        number += 2
    _send(client, number, _OK)
    return client


def _converse(client: socket.socket, answer: Answer, server: HostileServer) -> None:
    while True:
        command = _receive(client)
        if command == _QUIT:
            return
        sql = command[1:].decode(errors="replace")
        is_statement = command[:1] == b"\x03"
        if is_statement:
            server.asked.append(sql)
        is_setting = sql.upper().startswith("SET ")
        packets = answer(sql) if is_statement and not is_setting else [_OK]
        number, packet = 0, b""
        for number, packet in enumerate(packets, start=1):
            _send(client, number, packet)
        if packet[:1] == b"\xfb":
            while (content := _receive(client)) not in (b"", _QUIT):
                server.obtained.append(content)
            _send(client, number + 2, _OK)


def _greeting(login: Login) -> bytes:
    capabilities = _CAPABILITIES | (_TLS if login.tls is not None else 0)
    return (
        b"\x0a8.0.33\x00" + struct.pack("<I", 7) + b"saltsalt\x00"
        + struct.pack("<H", capabilities & 0xFFFF) + b"\x2d\x02\x00"
        + struct.pack("<H", capabilities >> 16) + b"\x15" + bytes(10)
        + b"saltsaltsalt\x00" + login.plugin + b"\x00"
    )  # fmt: skip


def _column(name: bytes = b"c", kind: int = TEXT) -> bytes:
    names = b"\x03def\x00\x00\x00" + _counted(name) + b"\x00"
    return names + b"\x0c" + struct.pack("<HIBHB", 45, 255, kind, 0, 0) + b"\x00\x00"


def _counted(text: bytes) -> bytes:
    length = len(text)
    return (bytes([length]) if length < 0xFB else b"\xfd" + struct.pack("<I", length)[:3]) + text


def _send(client: socket.socket, number: int, packet: bytes) -> None:
    client.sendall(struct.pack("<I", len(packet))[:3] + bytes([number & 0xFF]) + packet)


def _receive(client: socket.socket) -> bytes:
    header = _exactly(client, 4)
    return _exactly(client, int.from_bytes(header[:3], "little"))


def _exactly(client: socket.socket, n_bytes: int) -> bytes:
    content = b""
    while len(content) < n_bytes:
        part = client.recv(n_bytes - len(content))
        if not part:
            raise EOFError
        content += part
    return content
