"""Test the client with servers of every series, and against a second client library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection

from millrace.servers.instances.instance import Instance
from tests import servers
from tests.conftest import InstanceOf
from tests.support.talk import Certificates, Said, refusal, talk

pytestmark = pytest.mark.integration

NO_TLS = {"mysql-5.5.9"}
NO_USABLE_TLS = {
    "mysql-5.5.34", "mysql-5.6.14", "mysql-5.6.24", "mysql-5.7.19", "mysql-5.7.22",
    "mariadb-10.1.8", "mariadb-10.1.13", "mariadb-10.1.23", "mariadb-10.2.11",
    "mysql-8.0.12", "mysql-8.0.15",
}  # fmt: skip

TABLE = """CREATE TABLE d.t (
  id INT NOT NULL PRIMARY KEY, tiny TINYINT, tiny_u TINYINT UNSIGNED, small SMALLINT,
  medium MEDIUMINT, medium_u MEDIUMINT UNSIGNED, big BIGINT, big_u BIGINT UNSIGNED,
  price DECIMAL(20,6), ratio FLOAT, exact_ratio DOUBLE, day DATE, moment DATETIME,
  stamp TIMESTAMP NULL, span TIME, year YEAR, fixed CHAR(10), text VARCHAR(1000), blob_ BLOB,
  bits BIT(8), choice ENUM('a','b'), several SET('x','y')
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"""
FULL = (
    "(1,-128,255,-32768,-8388608,16777215,-9223372036854775808,18446744073709551615,"
    "'-12345678901234.567890',1.5,-2.5e100,'2024-02-29','1999-12-31 23:59:59',"
    "'2020-01-02 03:04:05','-838:59:59',2155,'abc','näïve ☃','bytes',b'01000001','b','x,y')"
)
EMPTY = f"(2{',NULL' * 21})"
ZERO = (
    "(3,0,0,0,0,0,0,0,0,0,0,'0000-00-00','0000-00-00 00:00:00','2020-01-01 00:00:00','00:00:00',"
    "1901,'','','',b'00100000','a','')"
)
FRACTIONS = (
    """CREATE TABLE d.fractions (moment DATETIME(6), stamp TIMESTAMP(3) NULL, span TIME(2))"""
)
FRACTION = "('2024-02-29 01:02:03.000045','2024-02-29 01:02:03.120','-01:02:03.50')"
PROCEDURE = """CREATE PROCEDURE d.several() BEGIN
  SELECT 1; SELECT id FROM d.t; UPDATE d.t SET small = small + 1 WHERE id = 1; END"""
QUERIES = (
    "SELECT * FROM d.t ORDER BY id",
    "SELECT 1, 'a', NULL, -1.50, 0x41",
    "SELECT * FROM d.t WHERE id = 99",
    "SELECT REPEAT('x', 300), REPEAT('y', 70000)",
)
FRACTION_QUERY = "SELECT * FROM d.fractions"
CHANGES = (
    "UPDATE d.t SET medium = medium + 1 WHERE id IN (1, 3)",
    "UPDATE d.t SET medium = medium WHERE id = 1",
    "INSERT INTO d.t (id) VALUES (4), (5), (6)",
    "DELETE FROM d.t WHERE id > 3",
    "SET @a = 1",
)
MISTAKES = (
    "SELEC 1",
    "SELECT * FROM d.absent",
    "INSERT INTO d.t (id) VALUES (1)",
    "SELECT nothing FROM d.t",
)


@contextmanager
def session(instance: Instance) -> Iterator[Connection[Any]]:
    """Open a session of PyMySQL that leaves every value as the server wrote it."""
    connection = pymysql.connect(
        unix_socket=str(instance.socket),
        user=instance.user,
        password=instance.password,
        conv={},
        charset="utf8mb4",
        autocommit=True,
        ssl_disabled=True,
        init_command="SET time_zone = '+00:00', sql_mode = ''",
    )
    with connection:
        yield connection


def rows_of(connection: Connection[Any], sql: str) -> list[list[str | None]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [
            [value.decode() if isinstance(value, bytes) else value for value in row]
            for row in cursor.fetchall()
        ]


def alike(ours: list[list[str | None]], theirs: list[list[str | None]]) -> bool:
    """Return whether values are equal, except for the digits of floating point numbers."""

    def same(a: str | None, b: str | None) -> bool:
        if a == b or a is None or b is None:
            return a == b
        try:
            return float(a) == float(b) and not a.isdecimal()
        except ValueError:
            return False

    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(same, a, b)) for a, b in zip(ours, theirs, strict=True)
    )


def make_tables(connection: Connection[Any], *, has_fractions: bool) -> None:
    statements = [
        "CREATE DATABASE d",
        TABLE,
        *(f"INSERT INTO d.t VALUES {row}" for row in (FULL, EMPTY, ZERO)),
    ]
    statements.append(PROCEDURE)
    if has_fractions:
        statements += [FRACTIONS, f"INSERT INTO d.fractions VALUES {FRACTION}"]
    with connection.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)


@pytest.mark.parametrize("name", servers.NAMES)
def test_every_server_is_understood(
    instance_of: InstanceOf, program: Path, certificates: Certificates, name: str
) -> None:
    with instance_of(name, **certificates.options) as instance, session(instance) as other:
        has_fractions = not name.startswith("mysql-5.5.")
        make_tables(other, has_fractions=has_fractions)
        check_values(program, instance, other, has_fractions=has_fractions)
        check_changes_and_mistakes(program, instance, other)
        check_refusals(program, instance)
        check_tls(program, instance, certificates)


def check_values(
    program: Path, instance: Instance, other: Connection[Any], *, has_fractions: bool
) -> None:
    queries = [*QUERIES, FRACTION_QUERY] if has_fractions else QUERIES
    statements: list[dict[str, Any]] = [{"sql": sql} for sql in queries]
    statements += [{"sql": sql, "parameters": []} for sql in queries]
    said = talk_with(program, instance, statements, tcp=True)
    for sql, waited, followed in zip(queries * 2, said.waited, said.followed, strict=True):
        expected = rows_of(other, sql)
        assert alike(waited["rows"], expected), (sql, waited["rows"], expected)
        assert followed["rows"] == len(expected)
    assert said.version == instance.version()
    values = [-(2**63), "näïve ☃", None, {"decimal": "-1234.500000"}, 2**63 - 1]
    echo = {"sql": "SELECT ?, ?, ?, ?, ?", "parameters": values}
    found = {
        "sql": "SELECT id FROM d.t WHERE big = ? AND text = ? AND price < ?",
        "parameters": [-(2**63), "näïve ☃", {"decimal": "-12345678901234.5"}],
    }
    said = talk_with(program, instance, [echo, found, {"sql": "CALL d.several()"}])
    assert said.waited[0]["rows"] == [
        [str(-(2**63)), "näïve ☃", None, "-1234.500000", str(2**63 - 1)]
    ]
    assert said.waited[1]["rows"] == [["1"]]
    assert said.waited[2]["rows"] == [["1"], ["2"], ["3"]]
    assert [each["rows"] for each in said.followed] == [1, 1, 4]


def check_changes_and_mistakes(program: Path, instance: Instance, other: Connection[Any]) -> None:
    expected = []
    for sql in CHANGES:
        with other.cursor() as cursor:
            cursor.execute(sql)
            expected.append(cursor.rowcount)
    ways: tuple[dict[str, Any], ...] = ({}, {"parameters": []})
    for prepared in ways:
        said = talk_with(program, instance, [{"sql": sql, **prepared} for sql in CHANGES])
        assert [each["affected_rows"] for each in said.waited] == expected
        assert [each["affected_rows"] for each in said.followed] == expected
    for sql in MISTAKES:
        with pytest.raises(pymysql.MySQLError) as caught, other.cursor() as cursor:
            cursor.execute(sql)
        code, message = caught.value.args
        mistaken = talk_with(program, instance, [{"sql": sql}, {"sql": sql, "parameters": []}])
        for each in (*mistaken.waited, *mistaken.followed):
            assert (each["error"][0], each["error"][2]) == (code, message)
            assert len(each["error"][1]) == len("42000")


def check_refusals(program: Path, instance: Instance) -> None:
    for tcp in (False, True):
        wrong = talk(program, instance, tcp=tcp, password="wrong")
        assert refusal(wrong).startswith("1045 28000 Access denied for user 'root'")


def check_tls(program: Path, instance: Instance, certificates: Certificates) -> None:
    ask: list[dict[str, Any]] = [
        {"sql": "SHOW STATUS LIKE 'Ssl_version'"},
        {"sql": QUERIES[0], "parameters": []},
    ]
    said = talk(
        program, instance, ask, tcp=True, tls="verify-identity", ca=str(certificates.authority)
    )
    if instance.server.name in NO_TLS:
        assert "does not support it: turn TLS off" in refusal(said)
    elif instance.server.name in NO_USABLE_TLS:
        assert "does not support TLS 1.2 or newer" in refusal(said)
    else:
        assert said.refused is None, said.refused
        assert said.waited[0]["rows"][0][1] in ("TLSv1.2", "TLSv1.3")
        assert [each["rows"] for each in said.followed] == [1, 3]


def talk_with(program: Path, instance: Instance, statements: Any, *, tcp: bool = False) -> Said:
    """Run ``talk`` without refusals, with the settings of PyMySQL's session."""
    first = ["SET time_zone = '+00:00', sql_mode = ''"]
    said = talk(program, instance, statements, tcp=tcp, session=first)
    assert said.refused is None, said.refused
    assert len(said.waited) == len(said.followed) == len(statements)
    return said
