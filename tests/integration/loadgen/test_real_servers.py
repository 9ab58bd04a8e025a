"""Test the load generator with real servers: rows arrive as generated, by every way in."""

from dataclasses import replace
from pathlib import Path

import pytest

from millrace.errors import TrialFailed
from millrace.loadgen import client, datasets
from millrace.loadgen import spec as forms
from millrace.loadgen.events import Event, LoadInterval, LoadResult, PhaseResult
from millrace.loadgen.spec import Connection, LoadData, LoadSpec, Statement
from millrace.servers.instances.instance import Instance
from tests.conftest import InstanceOf
from tests.support import driving

pytestmark = pytest.mark.integration

NATIVE = "mysql-5.6.24"
SHA2 = "mysql-8.0.12"
MARIADB = "mariadb-10.11.19"
ROWS, SEED = 20_000, 3
FAR_AWAY_S = 600.0
COLUMNS = ("id", "lat", "lon", "version", "timestamp", "changeset", "uid", "user")
TABLE = (
    "CREATE TABLE nodes (id bigint NOT NULL PRIMARY KEY, lat decimal(9,7), lon decimal(10,7),"
    " version int, timestamp timestamp, changeset bigint, uid bigint, user varchar(255))"
)
CHECKSUM = (
    "SELECT COUNT(*), SUM(CRC32(CONCAT_WS('\\t', id, lat, lon, version, timestamp, changeset, uid,"
    " CAST(user AS BINARY)))) FROM nodes"
)


def by_socket(instance: Instance, database: str | None = None) -> Connection:
    return Connection(**driving.by_socket(instance, database=database))


def by_tcp(instance: Instance) -> Connection:
    return Connection(**driving.by_tcp(instance, database=None))


def load_spec(connection: Connection, source: forms.GeneratedSource | forms.ServerFile) -> LoadSpec:
    prepare = ("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", "USE d", TABLE)
    return LoadSpec(
        connection,
        ("SET time_zone = '+00:00'",),
        (
            Statement("create", prepare, 60),
            LoadData("load", "nodes", COLUMNS, source, 60),
            Statement("verify", ("COMMIT", CHECKSUM), 60),
        ),
    )


def ask(connection: Connection, *sql: str, limit_s: float = 60) -> LoadResult:
    spec = LoadSpec(connection, (), (Statement("ask", sql, limit_s),))
    return client.run(spec, limit_s=FAR_AWAY_S)


def statement_phases(result: LoadResult) -> list[PhaseResult]:
    return [phase for phase in result.phases if isinstance(phase, PhaseResult)]


@pytest.mark.parametrize("name", [NATIVE, SHA2, MARIADB])
def test_what_arrives_is_what_was_made(instance_of: InstanceOf, name: str) -> None:
    expected = datasets.data_checksum("nodes", ROWS, SEED)
    with instance_of(name) as instance:
        file = Path(instance.load_dir) / "nodes.tsv"
        datasets.write_data_file(file, "nodes", ROWS, SEED)
        file.chmod(0o644)
        generated = forms.GeneratedSource("nodes", ROWS, SEED)
        # TCP first: the server has the password's proof cached after any full login.
        for connection, source in (
            (by_tcp(instance), generated),
            (by_tcp(instance), generated),
            (by_socket(instance), generated),
            (by_socket(instance), forms.ServerFile(file)),
        ):
            result = client.run(load_spec(connection, source), limit_s=FAR_AWAY_S)
            _create, load, verify = statement_phases(result)
            assert load.affected_rows == ROWS
            assert verify.result == ((str(ROWS), str(expected.checksum)),)
            if source is generated:
                assert (load.rows_sent, load.bytes_sent) == (ROWS, expected.bytes)
                assert load.generator_wait_s is not None
            else:
                assert (load.rows_sent, load.generator_wait_s) == (0, None)
            assert result.server_version == instance.version()


def test_both_plugins_of_one_server_by_switch_in_full_and_from_its_cache(
    instance_of: InstanceOf,
) -> None:
    with instance_of(SHA2) as instance:
        for plugin in ("mysql_native_password", "caching_sha2_password"):
            account = f"'{plugin}'@'127.0.0.1' IDENTIFIED WITH {plugin} BY 'pässwörd'"
            ask(by_socket(instance), f"CREATE USER {account}")
            right = replace(by_tcp(instance), user=plugin, password="pässwörd")
            wrong = replace(right, password="wrong")
            for _ in ("in full", "from its cache"):
                result = ask(right, "SELECT CURRENT_USER()")
                assert statement_phases(result)[0].result == ((f"{plugin}@127.0.0.1",),)
            with pytest.raises(TrialFailed, match="error 1045") as caught:
                ask(wrong, "SELECT 1")
            assert caught.value.step == "connect"


def test_an_error_of_the_server_ends_the_run_with_its_words(instance_of: InstanceOf) -> None:
    with instance_of(NATIVE) as instance:
        missing = LoadData("load", "absent", (), forms.GeneratedSource("nodes", 10, 1), 60)
        spec = LoadSpec(by_socket(instance, "mysql"), (), (missing,))
        said = r"'mysql\.absent' doesn't exist \(error 1146"
        with pytest.raises(TrialFailed, match=said) as caught:
            client.run(spec, limit_s=FAR_AWAY_S)
        assert caught.value.step == "load"
        outside = LoadData("load", "user", (), forms.ServerFile(Path("/etc/hostname")), 60)
        with pytest.raises(TrialFailed, match="error 1290"):
            client.run(LoadSpec(by_socket(instance, "mysql"), (), (outside,)), limit_s=FAR_AWAY_S)
        with pytest.raises(TrialFailed, match=r"the time limit of 0\.3 s is over"):
            ask(by_socket(instance), "SELECT SLEEP(600)", limit_s=0.3)


def test_a_server_killed_in_the_middle_of_a_load_is_a_lost_connection(
    instance_of: InstanceOf,
) -> None:
    with instance_of(NATIVE) as instance:
        endless = load_spec(by_socket(instance), forms.GeneratedSource("nodes", 10**9, SEED))

        def kill(event: Event) -> None:
            if isinstance(event, LoadInterval) and event.phase == "load":
                instance.kill()

        with pytest.raises(TrialFailed, match="load: lost the connection to the server"):
            client.run(endless, on_event=kill, limit_s=FAR_AWAY_S)


def test_load_fails_when_rows_violate_the_table(instance_of: InstanceOf) -> None:
    with instance_of(NATIVE) as instance:
        strict = ("SET time_zone = '+00:00'", "SET sql_mode = 'STRICT_ALL_TABLES'")
        prepare = ("CREATE DATABASE d", "USE d", "CREATE TABLE nodes (id int)")
        file = Path(instance.load_dir) / "nodes.tsv"
        datasets.write_data_file(file, "nodes", 100, SEED)
        file.chmod(0o644)
        load = LoadData("load", "nodes", (), forms.ServerFile(file), 60)
        spec = LoadSpec(by_socket(instance), strict, (Statement("create", prepare, 60), load))
        with pytest.raises(TrialFailed, match=r"error (1264|1262)"):
            client.run(spec, limit_s=FAR_AWAY_S)
