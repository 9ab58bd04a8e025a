"""Test the specification as JSON, and that the load generator reads exactly that."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.errors import TrialFailed
from millrace.loadgen import client
from millrace.loadgen import spec as forms
from millrace.loadgen.spec import Connection, Drive, GeneratedSource, LoadData, LoadSpec, Statement
from tests.support.small_workload import driving


def every_kind(connection: Connection) -> LoadSpec:
    return LoadSpec(
        connection=connection,
        session=("SET time_zone = '+00:00'",),
        phases=(
            LoadData("load", "nodes", ("id", "lat"), GeneratedSource("nodes", 10, 1), 600.0),
            LoadData("file", "nodes", (), forms.ServerFile(Path("/tmp/nodes.tsv")), 600.0),
            Statement("finish", ("COMMIT", "FLUSH TABLES"), 0.5),
        ),
    )


def test_the_form_as_json() -> None:
    connection = Connection(user="u", password="p", database="d", socket=Path("/run/s"))
    written = json.loads(every_kind(connection).to_json())
    assert written == {
        "version": 2,
        "connection": {
            "user": "u", "password": "p", "database": "d", "socket": "/run/s",
            "allow_unverified": False,
        },
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


def with_tables(connection: Connection) -> LoadSpec:
    definition = driving()
    phases: tuple[forms.SpecPhase, ...] = (
        forms.LoadTables(
            "load", 60.0, method="multi_row", threads=2, lock_tables=True, linger_s=0.5,
        ),
        forms.VerifyTables("verify", 60.0),
        forms.WarmTables("warm", 60.0),
        Drive("closed", "point", 8, 60.0, time_s=0.5, warmup_s=0.25, pacing=forms.Closed()),
        Drive(
            "open", "pair", 2, 60.0, transactions=100, protocol="text", threads=1, cpus=(0, 1),
            pacing=forms.Open(50.5, "constant", 0.5), retry=("1213",), busy_poll=True,
            warmup_s=20, until_steady=True, linger_s=0.25, primary=True,
            statement_activity=Path("/run/activity"),
        ),
    )  # fmt: skip
    names = ("tables", "generators", "statements", "tests")
    tables = forms.Tables(
        {name: definition[name] for name in names},
        defaults={"tables": 1, "table_size": 10, "range_size": 100, "engine": "InnoDB"},
        values={"table_size": 20},
        seed=7,
    )
    return LoadSpec(connection, (), phases, tables)


def test_the_form_of_tables_and_clients() -> None:
    connection = Connection(
        user="u", password="p", host="h", port=1, tls=forms.ConnectionTls("required")
    )
    written = json.loads(with_tables(connection).to_json())
    assert written["connection"]["tls"] == {"mode": "required", "ca": None}
    assert written["seed"] == 7
    assert written["values"] == {"table_size": 20}
    assert written["workload"]["statements"].keys() == {"select", "update", "again", "range"}
    load, verify, warm, closed, opened = written["phases"]
    assert load == {
        "name": "load", "kind": "load_tables", "threads": 2, "method": "multi_row",
        "lock_tables": True, "chunk_rows": 0, "linger_s": 0.5, "limit_s": 60.0,
    }  # fmt: skip
    assert verify == {"name": "verify", "kind": "verify_tables", "limit_s": 60.0}
    assert warm == {"name": "warm", "kind": "warm_tables", "limit_s": 60.0}
    assert closed["end"] == {"kind": "time", "seconds": 0.5}
    assert closed["warmup"] == {"kind": "time", "seconds": 0.25}
    assert opened["warmup"] == {"kind": "steady", "limit_s": 20}
    assert (closed["pacing"], closed["cpus"]) == ({"kind": "closed"}, None)
    assert (closed["linger_s"], opened["linger_s"]) == (0.0, 0.25)
    assert (closed["primary"], opened["primary"]) == (False, True)
    assert (closed["statement_activity"], opened["statement_activity"]) == (None, "/run/activity")
    assert opened["end"] == {"kind": "operations", "transactions": 100}
    assert opened["pacing"] == {
        "kind": "open", "rate": 50.5, "arrivals": "constant", "max_lateness_s": 0.5,
    }  # fmt: skip


def in_slices(connection: Connection, *against: Connection) -> LoadSpec:
    spec = with_tables(connection)
    slowdowns = (0.0, *(0.01 for _ in against))
    drive = Drive(
        "measure", "point", 1, 60.0, time_s=0.5, slices=forms.Slices(0.005, 0.2, 150, slowdowns)
    )
    return replace(spec, phases=(drive,), against=against)


def test_several_servers_are_driven_in_slices() -> None:
    first = Connection(user="u", password="p", socket=Path("/run/s"))
    second = Connection(user="v", password="q", host="h", port=1)
    written = json.loads(in_slices(first, second).to_json())
    assert written["connection"]["socket"] == "/run/s"
    assert written["against"] == [
        {"user": "v", "password": "q", "host": "h", "port": 1, "allow_unverified": False}
    ]
    [phase] = written["phases"]
    assert phase["slices"] == {
        "at_least_s": 0.005, "at_most_s": 0.2, "transactions": 150, "slowdowns": [0.0, 0.01],
    }  # fmt: skip
    # A single server is driven as by load generators that know no slices.
    alone = json.loads(with_tables(first).to_json())
    assert "against" not in alone
    assert not [phase for phase in alone["phases"] if "slices" in phase]


def test_slices_need_other_servers_and_they_need_slices() -> None:
    connection = Connection(user="u", password="p", socket=Path("/run/s"))
    with pytest.raises(ValueError, match="phases need slices with several servers"):
        in_slices(connection)
    with pytest.raises(ValueError, match="phases need slices with several servers"):
        replace(with_tables(connection), against=(connection,))


def test_several_servers_load_in_slices() -> None:
    connection = Connection(user="u", password="p", socket=Path("/run/s"))
    load = LoadData("load", "nodes", ("id",), GeneratedSource("nodes", 9, 1), 60.0)
    count = Statement("count", ("SELECT 1",), 60.0)
    spec = LoadSpec(connection, (), (replace(load, slice_rows=4), count), against=(connection,))
    loading, counting = json.loads(spec.to_json())["phases"]
    assert loading["slices"] == {"rows": 4}
    assert loading["source"] == {"generate": {"set": "nodes", "rows": 9, "seed": 1}}
    assert "slices" not in counting
    for phases in ((load,), (forms.WarmTables("warm", 60.0),)):
        with pytest.raises(ValueError, match="phases need slices with several servers"):
            replace(spec, phases=phases)


def test_clients_end_by_time_or_by_number() -> None:
    for time_s, transactions in ((None, None), (1.0, 5)):
        with pytest.raises(ValueError, match="either time_s or transactions"):
            Drive("measure", "point", 1, 60.0, time_s=time_s, transactions=transactions)


def test_the_load_generator_reads_every_kind_and_looks_for_the_server(tmp_path: Path) -> None:
    nobody = tmp_path / "nobody"
    connections = (
        Connection(user="u", password="", socket=nobody),
        Connection(user="u", password="", database="d", host="127.0.0.1", port=1),
    )
    for connection in connections:
        several = in_slices(connection, *connections)
        for spec in (every_kind(connection), with_tables(connection), several):
            with pytest.raises(TrialFailed, match="cannot connect to") as caught:
                client.run(spec, limit_s=60)
            assert caught.value.step == "connect"


def test_a_connection_is_either_a_socket_or_an_address() -> None:
    with pytest.raises(ValueError, match="either a socket, or a host and a port"):
        Connection(user="u", password="p")
    with pytest.raises(ValueError, match="either"):
        Connection(user="u", password="p", socket=Path("/s"), host="h", port=1)


def test_a_password_is_not_shown() -> None:
    connection = Connection(user="u", password="s3cret", socket=Path("/run/s"))
    assert "s3cret" not in repr(every_kind(connection))
    other = Connection(user="u", password="", socket=Path("/run/s"))
    assert "s3cret" not in repr(in_slices(other, connection))
