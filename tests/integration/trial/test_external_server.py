"""Test that no secret of an attached server is kept, and that no database of a trial stays."""

import contextlib
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.databases.client import Session
from millrace.errors import DatabaseError
from millrace.servers.instances.instance import Instance
from tests.conftest import InstanceOf
from tests.support.command import Place

pytestmark = pytest.mark.integration

SECRETS = {
    "option": "swordfish_of_replication",
    "variable": "swordfish_of_sessions",
    "deadlock": "swordfish_of_a_deadlock",
    "transaction": "swordfish_of_a_transaction",
    "database": "swordfish_of_a_customer",
}
FILE = """
name = "theirs"
workload = "updates"
blocks = 1
collectors = ["status", "waits", "plans"]

[factors]
server = ["theirs"]
test = ["read-select"]
clients = [2]

[compare]
factor = "server"
base = "theirs"

[parameters]
tables = 1
table_size = 1_000
time_s = 2
warmup_s = 0.1
cache_mode = "any"
"""


def test_no_secret_of_an_attached_server_is_kept(tmp_path: Path, instance_of: InstanceOf) -> None:
    place = Place(tmp_path)
    file = tmp_path / "theirs.toml"
    file.write_text(FILE, encoding="utf-8")
    with (
        instance_of("mariadb-10.11.19", report_password=SECRETS["option"]) as theirs,
        planted(theirs),
        place.attached(theirs, "mariadb"),
    ):
        ran = place.millrace("run", file)
        inspected = place.millrace("config", "show", "theirs", "default", "--json")
    assert ran.returncode == 0, ran.stderr
    [attempt] = place.latest().attempts
    assert attempt.outcome == "finished"
    assert attempt.instances[0].effective["init_connect"] == "(not recorded)"
    assert attempt.instances[0].effective["innodb_buffer_pool_size"].isdecimal()
    archive = tmp_path / "runs.zip"
    place.millrace("results", "export", "latest", "--output", archive)
    outputs = [
        ran.stdout,
        inspected.stdout,
        place.millrace("results", "show", "latest", "--json").stdout,
        place.millrace("report", "latest", "--format", "json").stdout,
        place.millrace("explain", "latest", "--json").stdout,
    ]
    kept = [each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()]
    with zipfile.ZipFile(archive) as opened:
        kept += [opened.read(member) for member in opened.namelist()]
    assert any(b"read-select" in each for each in kept)
    for what, secret in SECRETS.items():
        assert not [each for each in outputs if secret in each], what
        assert not [each[:100] for each in kept if secret.encode() in each], what


@contextlib.contextmanager
def planted(theirs: Instance) -> Iterator[None]:
    """Leave secrets in the server: in variables, a deadlock, and a transaction that goes on."""
    customer = SECRETS["database"]
    theirs.query(f"SET GLOBAL init_connect = \"SET @password = '{SECRETS['variable']}'\"")
    theirs.query(f"CREATE DATABASE {customer}")
    theirs.query(f"CREATE TABLE {customer}.t (id int PRIMARY KEY, name varchar(80))")
    theirs.query(f"INSERT INTO {customer}.t VALUES (1, ''), (2, ''), (3, '')")
    with contextlib.ExitStack() as opened:
        one, other, third = (
            opened.enter_context(contextlib.closing(theirs.connect(customer))) for _ in range(3)
        )
        for session, row in ((one, 1), (other, 2), (third, 3)):
            session.query("BEGIN")
            update(session, row, SECRETS["transaction"] if row == 3 else SECRETS["deadlock"])
        waiting = threading.Thread(target=update, args=(one, 2, SECRETS["deadlock"]))
        waiting.start()
        update(other, 1, SECRETS["deadlock"])
        waiting.join()
        status = theirs.query("SHOW ENGINE INNODB STATUS")[0][-1] or ""
        assert SECRETS["deadlock"] in status
        one.query("ROLLBACK")
        other.query("ROLLBACK")
        yield


def update(session: Session, row: int, value: str) -> None:
    with contextlib.suppress(DatabaseError):  # of the victim
        session.query(f"UPDATE t SET name = '{value}' WHERE id = {row}")


DROPS = """
name = "drops"
workload = "drop-table"
blocks = 1

[factors]
server = ["theirs"]
drop = ["database", "tables"]

[compare]
factor = "server"
base = "theirs"

[parameters]
dropped_tables = 2
dropped_rows = 100
kept_rows = 100
time_s = 1
warmup_s = 0.1
cache_mode = "any"
"""


def test_what_a_broken_trial_left_is_dropped(tmp_path: Path, instance_of: InstanceOf) -> None:
    place = Place(tmp_path)
    file = tmp_path / "drops.toml"
    file.write_text(DROPS, encoding="utf-8")
    with instance_of("mysql-5.7.22") as ours:
        before = ours.query("SHOW DATABASES")
        ours.query("CREATE DATABASE millrace_dropped")  # as a killed millrace leaves it
        with place.attached(ours, "mysql"):
            ran = place.millrace("run", file)
        assert ran.returncode == 0, ran.stderr
        assert ours.query("SHOW DATABASES") == before
    assert [attempt.outcome for attempt in place.latest().attempts] == ["finished"] * 2
