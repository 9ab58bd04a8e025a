"""Records what real servers say as seeds for the fuzz targets, and for the tests in Rust.

    .venv/bin/python crates/protocol/fuzz/record.py [SERVER ...]

One small file for each server and message, in `seeds/TARGET/`.
"""

import socket
import struct
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
from millrace.servers.instances.lifecycle.lifecycle import Instance
from pymysql.connections import Connection

from millrace.model.servers import FittedOptions
from millrace.servers import install
from millrace.servers.instances import lifecycle

SEEDS = Path(__file__).parent / "seeds"
SERVERS = (
    "mysql-5.5.9", "mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.33", "mysql-9.7.4",
    "mariadb-10.1.8", "mariadb-10.5.29", "mariadb-11.8.9",
)  # fmt: skip
COM_QUERY, COM_STMT_PREPARE, COM_STMT_EXECUTE = 3, 22, 23
EOF, ERROR, OK = 0xFE, 0xFF, 0x00

TABLE = """CREATE TABLE d.t (
  id INT NOT NULL PRIMARY KEY, small_u SMALLINT UNSIGNED, medium MEDIUMINT, big_u BIGINT UNSIGNED,
  price DECIMAL(12,3), ratio FLOAT, exact_ratio DOUBLE, day DATE, moment DATETIME, span TIME,
  year YEAR, text VARCHAR(300), blob_ BLOB, bits BIT(8), choice ENUM('a','b'))"""
ROWS = """INSERT INTO d.t VALUES
  (1, 65535, -8388608, 18446744073709551615, -1.500, 1.5, -2.5e100, '2024-02-29',
   '1999-12-31 23:59:59', '-838:59:59', 2155, 'näïve ☃', 'bytes', b'01000001', 'b'),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (3, 0, 0, 0, 0, 0, 0, '0000-00-00', '0000-00-00 00:00:00', '00:00:00', 1901,
   REPEAT('x', 252), '', b'0', 'a')"""
PROCEDURE = "CREATE PROCEDURE d.several() BEGIN SELECT 1; SELECT id, text FROM d.t; END"
ANSWERS = {
    "ok": "UPDATE d.t SET small_u = 1 WHERE id = 2",
    "error": "SELECT * FROM d.absent",
    "rows": "SELECT * FROM d.t ORDER BY id",
    "several": "CALL d.several()",
}
PREPARED = "SELECT * FROM d.t WHERE id > ? ORDER BY id"
OK_MESSAGE = bytes([OK, 0, 0, 2, 0, 0, 0])


class Recording:
    """A stream that keeps what was read from it."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.seen = b""

    def read(self, size: int) -> bytes:
        data: bytes = self.stream.read(size)
        self.seen += data
        return data

    def close(self) -> None:
        self.stream.close()


def record(server: str) -> None:
    with lifecycle.create(install.install(server), FittedOptions("default", ())) as instance:
        instance.initialise(limit_s=120)
        instance.start(limit_s=60)
        greeted = greeting(instance)
        keep("greeting", server, "greeting", greeted)
        with closing(session(instance)) as connection:
            stream = Recording(connection._rfile)
            connection._rfile = stream
            for name, sql in ANSWERS.items():
                text = answer(connection, stream, COM_QUERY, sql.encode())
                keep("answer", server, name, text)
            keep("prepared", server, "error", prepare(connection, stream, b"SELEC ?"))
            prepared = prepare(connection, stream, PREPARED.encode())
            keep("prepared", server, "rows", prepared)
            execute = prepared[5:9] + struct.pack("<BIBBBBq", 0, 1, 0, 1, 8, 0, 0)
            rows = answer(connection, stream, COM_STMT_EXECUTE, execute)
            keep("binary_rows", server, "rows", rows)
            session_bytes = framed(greeted, 0) + framed(OK_MESSAGE, 2) + text + prepared + rows
            keep("session", server, "session", session_bytes)
        instance.kill()


def session(instance: Instance) -> Connection[Any]:
    connection = pymysql.connect(
        unix_socket=str(instance.socket),
        user=instance.user,
        password=instance.password,
        charset="utf8mb4",
        autocommit=True,
        ssl_disabled=True,
        init_command="SET sql_mode = ''",
    )
    with connection.cursor() as cursor:
        for sql in ("CREATE DATABASE d", TABLE, ROWS, PROCEDURE):
            cursor.execute(sql)
    return connection


def greeting(instance: Instance) -> bytes:
    """Return the payload of the first packet."""
    with closing(socket.socket(socket.AF_UNIX)) as plain:
        plain.connect(str(instance.socket))
        with plain.makefile("rb") as stream:
            return packet(stream)


def packet(stream: Any) -> bytes:
    header = stream.read(4)
    payload: bytes = stream.read(int.from_bytes(header[:3], "little"))
    return payload


def framed(payload: bytes, number: int) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([number]) + payload


def answer(connection: Connection[Any], stream: Recording, command: int, text: bytes) -> bytes:
    """Return the packets of a whole answer."""
    stream.seen = b""
    connection._execute_command(command, text)
    while True:
        first = packet(stream)
        if first[0] in (OK, ERROR):
            more = first[0] == OK and first[3] & 8
        else:
            until_eof(stream)
            more = until_eof(stream)[3] & 8
        if not more:
            return stream.seen


def prepare(connection: Connection[Any], stream: Recording, sql: bytes) -> bytes:
    stream.seen = b""
    connection._execute_command(COM_STMT_PREPARE, sql)
    first = packet(stream)
    if first[0] == OK:
        for count in struct.unpack("<HH", first[5:9]):
            if count:
                until_eof(stream)
    return stream.seen


def until_eof(stream: Recording) -> bytes:
    while True:
        payload = packet(stream)
        if payload[0] == EOF and len(payload) < 9:
            return payload


def keep(target: str, server: str, name: str, data: bytes) -> None:
    file = SEEDS / target / f"{server}-{name}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


if __name__ == "__main__":
    for each in sys.argv[1:] or SERVERS:
        record(each)
