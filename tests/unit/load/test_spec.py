"""The specification as JSON, and that the load generator reads exactly that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millrace.errors import TrialFailed
from millrace.load import client
from millrace.load.spec import (
    Connection,
    GeneratedSource,
    LoadData,
    RunSpec,
    ServerFile,
    Statement,
)


def every_kind(connection: Connection) -> RunSpec:
    return RunSpec(
        connection=connection,
        session=("SET time_zone = '+00:00'",),
        phases=(
            LoadData("load", "nodes", ("id", "lat"), GeneratedSource("nodes", 10, 1), 600.0),
            LoadData("file", "nodes", (), ServerFile(Path("/tmp/nodes.tsv")), 600.0),
            Statement("finish", ("COMMIT", "FLUSH TABLES"), 0.5),
        ),
    )


def test_the_form_as_json() -> None:
    connection = Connection(user="u", password="p", database="d", socket=Path("/run/s"))
    written = json.loads(every_kind(connection).to_json())
    assert written == {
        "version": 1,
        "connection": {"socket": "/run/s", "user": "u", "password": "p", "database": "d"},
        "session": ["SET time_zone = '+00:00'"],
        "phases": [
            {
                "name": "load", "kind": "load_data", "table": "nodes", "columns": ["id", "lat"],
                "source": {"generate": {"set": "nodes", "rows": 10, "seed": 1}}, "limit_s": 600.0,
            },
            {
                "name": "file", "kind": "load_data", "table": "nodes", "columns": [],
                "source": {"server_file": "/tmp/nodes.tsv"}, "limit_s": 600.0,
            },
            {
                "name": "finish", "kind": "statement", "sql": ["COMMIT", "FLUSH TABLES"],
                "limit_s": 0.5,
            },
        ],
    }  # fmt: skip


def test_the_load_generator_reads_every_kind_and_looks_for_the_server(tmp_path: Path) -> None:
    nobody = tmp_path / "nobody"
    connections = (
        Connection(user="u", password="", socket=nobody),
        Connection(user="u", password="", database="d", host="127.0.0.1", port=1),
    )
    for connection in connections:
        with pytest.raises(TrialFailed, match="cannot connect to") as caught:
            client.run(every_kind(connection), limit_s=60)
        assert caught.value.step == "connect"


def test_a_connection_is_either_a_socket_or_an_address() -> None:
    with pytest.raises(ValueError, match="either a socket, or a host and a port"):
        Connection(user="u", password="p")
    with pytest.raises(ValueError, match="either"):
        Connection(user="u", password="p", socket=Path("/s"), host="h", port=1)


def test_a_password_is_not_shown() -> None:
    connection = Connection(user="u", password="s3cret", socket=Path("/run/s"))
    assert "s3cret" not in repr(every_kind(connection))
