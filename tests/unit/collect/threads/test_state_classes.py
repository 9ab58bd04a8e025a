"""Test the classes of sampled thread states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases
from millrace.collect.threads.state_classes import (
    Activity,
    Context,
    classify,
    target_kind,
)
from millrace.databases.base import ServerClient
from millrace.databases.monitoring import FileKinds
from millrace.errors import TrialFailed
from millrace.host import syscalls
from millrace.host.sockets import Sockets

DATA = "/var/lib/work/mysql-8.0.33-fbeda679/data"
SOCKETS = Sockets(listening=frozenset({10, 11}), own=frozenset({20}))
MYSQL = databases.get("mysql").monitoring


@dataclass
class Client:
    """A client of a server that answers with these names of its binary logs."""

    logs: tuple[str, ...] | None

    def query(self, _sql: str, *, limit_s: float) -> list[tuple[str]]:
        assert limit_s > 0
        if self.logs is None:
            raise TrialFailed("You are not using binary logging")
        return [(name,) for name in self.logs]


def files(*logs: str) -> FileKinds:
    return MYSQL.file_kinds(cast(ServerClient, Client(logs or None)))


FILES = files("binlog.000017", "/elsewhere/primary-log.000003")
CONTEXT = Context(SOCKETS, FILES, architecture="x86_64")
NUMBERS = {name: number for number, name in syscalls.names("x86_64").items()}


def did(call: str, link: str | None = None, context: Context = CONTEXT) -> Activity:
    return classify("S", NUMBERS[call], link, context)


@pytest.mark.parametrize(
    ("link", "what"),
    [
        (f"{DATA}/ib_logfile0", "redo log"),
        (f"{DATA}/ib_logfile101", "redo log"),
        (f"{DATA}/#innodb_redo/#ib_redo5", "redo log"),
        (f"{DATA}/#innodb_redo/#ib_redo6_tmp (deleted)", "redo log"),
        (f"{DATA}/binlog.000001", "binary log"),
        (f"{DATA}/host-bin.123456", "binary log"),
        ("/elsewhere/primary-log.000012", "binary log"),
        (f"{DATA}/binlog.index", "index of the binary log"),
        (f"{DATA}/host-relay-bin.000002", "relay log"),
        (f"{DATA}/aria_log.00000001", "Aria log"),
        (f"{DATA}/tc.log", "log of the coordinator"),
        (f"{DATA}/#rocksdb/000012.log", "RocksDB log"),
        (f"{DATA}/#ib_16384_0.dblwr", "doublewrite buffer"),
        (f"{DATA}/ibdata1", "system tablespace"),
        (f"{DATA}/ibdata12", "system tablespace"),
        (f"{DATA}/undo_001", "undo tablespace"),
        (f"{DATA}/undo001", "undo tablespace"),
        (f"{DATA}/observed/sbtest1.ibd", "data file"),
        (f"{DATA}/observed/sbtest1.MYD", "data file"),
        (f"{DATA}/mysql.ibd", "data file"),
        (f"{DATA}/observed/sbtest1.frm", "table definition"),
        (f"{DATA}/ibtmp1", "temporary file"),
        (f"{DATA}/#innodb_temp/temp_10.ibt", "temporary file"),
        ("/var/lib/work/tmp/#9986471 (deleted)", "temporary file"),
        ("/var/lib/work/tmp/ibZb4W7q (deleted)", "temporary file"),
        ("/var/lib/work/tmp/MLfd=41", "temporary file"),
        ("/var/lib/work/error.log", "text log"),
        (f"{DATA}/something", "other file"),
        ("socket:[10]", "listening socket"),
        ("socket:[20]", "socket of millrace"),
        ("socket:[30]", "socket of a client"),
        ("pipe:[99]", "pipe"),
        ("anon_inode:[eventpoll]", "anon_inode"),
    ],
)
def test_targets(link: str, what: str) -> None:
    assert target_kind(link, CONTEXT) == what


@pytest.mark.parametrize(
    ("call", "target", "expected"),
    [
        ("futex", None, "lock"),
        ("semtimedop", None, "lock"),
        ("flock", f"{DATA}/aria_log_control", "lock"),
        ("fsync", f"{DATA}/ib_logfile0", "log_flush"),
        ("fdatasync", f"{DATA}/binlog.000001", "log_flush"),
        ("fdatasync", f"{DATA}/#innodb_redo/#ib_redo5", "log_flush"),
        ("fsync", f"{DATA}/observed/sbtest1.ibd", "fsync"),
        ("fsync", f"{DATA}/#ib_16384_0.dblwr", "fsync"),
        ("fsync", None, "fsync"),
        ("msync", None, "log_flush"),
        ("pread64", f"{DATA}/observed/sbtest1.ibd", "data_read"),
        ("read", f"{DATA}/binlog.000001", "data_read"),
        ("pwrite64", f"{DATA}/observed/sbtest1.ibd", "data_write"),
        ("pwrite64", f"{DATA}/ib_logfile0", "log_write"),
        ("read", "socket:[30]", "network"),
        ("recvfrom", "socket:[30]", "network"),
        ("poll", "socket:[30]", "network"),
        ("ppoll", "socket:[30]", "network"),
        ("poll", None, "network"),
        ("accept4", "socket:[10]", "network"),
        ("epoll_wait", "anon_inode:[eventpoll]", "network"),
        ("sendto", "socket:[30]", "network_send"),
        ("write", "socket:[30]", "network_send"),
        ("nanosleep", None, "sleep"),
        ("clock_nanosleep", None, "sleep"),
        ("pselect6", "[no descriptors]", "sleep"),
        ("poll", "[no descriptors]", "sleep"),
        ("io_getevents", None, "io_queue"),
        ("io_pgetevents", None, "io_queue"),
        ("io_uring_enter", "anon_inode:[io_uring]", "io_queue"),
        ("rt_sigtimedwait", None, "other"),
        ("openat", None, "other"),
        ("munmap", None, "other"),
    ],
)
def test_classes_of_calls(call: str, target: str | None, expected: str) -> None:
    found = did(call, target)
    assert (found.state_class, found.syscall) == (expected, call)


def test_a_write_to_a_log_that_is_written_through_waits_for_the_disk() -> None:
    through = Context(SOCKETS, FILES, {"redo log", "data file"}, "x86_64")
    assert did("pwrite64", f"{DATA}/ib_logfile0", through).state_class == "log_flush"
    assert did("pwrite64", f"{DATA}/binlog.000001", through).state_class == "log_write"
    assert did("pwrite64", f"{DATA}/a/b.ibd", through).state_class == "data_write"


def test_what_is_in_no_call() -> None:
    assert classify("R", None, None, CONTEXT) == Activity("running", None, None)
    assert classify("D", -1, None, CONTEXT) == Activity("page_fault", None, None)
    assert classify("S", -1, None, CONTEXT).state_class == "page_fault"
    assert classify("t", -1, None, CONTEXT).state_class == "other"
    assert classify("S", 9_999, None, CONTEXT) == Activity("other", "syscall 9999", None)


def test_numbers_depend_on_the_architecture() -> None:
    arm = Context(SOCKETS, FILES, architecture="aarch64")
    assert classify("S", 98, None, arm) == Activity("lock", "futex", None)
    assert classify("D", 82, f"{DATA}/ib_logfile0", arm).state_class == "log_flush"
    assert classify("S", 98, None, Context(SOCKETS, FILES, architecture="s390x")) == Activity(
        "other", "syscall 98", None
    )
    for machine in ("x86_64", "aarch64"):
        assert len(syscalls.names(machine)) == len(set(syscalls.names(machine).values()))
    assert syscalls.names() in (syscalls.names("x86_64"), syscalls.names("aarch64"), {})


def test_binary_logs_have_the_names_that_the_server_has_for_them() -> None:
    assert files("/data/odd.1000000").kind("odd.1000001") == "binary log"
    assert files("/data/a.b").kind("/data/a.b") == "binary log"
    assert files("odd.000001").kind("oddly.000001") == "other file"
    assert files().kind("odd.000001") == "other file"


@given(
    st.sampled_from("RSDTtZ"),
    st.none() | st.integers(-1, 500),
    st.none() | st.text() | st.from_regex(r"(socket|pipe):\[\d{1,9}\]", fullmatch=True),
)
def test_every_state_has_a_class(state: str, call: int | None, target: str | None) -> None:
    found = classify(state, call, target, CONTEXT)
    assert found.state_class
    assert (found.state_class == "running") == (state == "R")
