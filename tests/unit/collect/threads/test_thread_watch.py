"""Test the purpose of a thread, by the names and activity of threads of real servers."""

from dataclasses import replace
from typing import Any

import pytest

from millrace import databases
from millrace.collect.threads.thread_watch import Server, Thread, kind_of, of_replica

NAMES = databases.get("mysql").monitoring.threads.own
SILENT = Server(pid=100, ready=(500, 130), reports_sessions=False, names=NAMES)
REPORTING = Server(pid=100, ready=(500, 130), reports_sessions=True, names=NAMES)


def thread(name: str = "mysqld", tid: int = 120, **known: Any) -> Thread:
    return Thread(**{"tid": tid, "name": name, "started_ticks": 400, "ran": True, **known})


OWN_NAMES = (
    # MySQL 8.0 and 9.
    ("io", "ib_io_ibuf ib_io_rd-1 ib_io_wr-4"),
    ("page_cleaner", "ib_pg_flush_co ib_pg_flush-1"),
    ("checkpoint", "ib_log_checkpt"),
    ("log", "ib_log_fl_notif ib_log_flush ib_log_wr_notif ib_log_writer ib_log_files_g"),
    ("purge", "ib_srv_purge ib_srv_wkr-1"),
    ("timer", "ib_srv_lock_to ib_srv_err_mon ib_srv_mon"),
    ("background", "ib_src_main ib_buf_dump ib_clone_gtid ib_dict_stats ib_fts_opt evt_sched"),
    ("background", "sig_handler rpl_opt_tracker xpl_worker-1"),
    ("binlog", "gtid_zip"),
    # MariaDB 11.8.
    ("io", "io_uring_wait"),
    ("page_cleaner", "page_cleaner"),
    ("timer", "statement_timer"),
    ("background", "checkpoint_bg ib_tpool_worker manager signal_handler"),
    # Threads of the kernel.
    ("io", "iou-wrk-4711 iou-sqp-4711"),
)


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for kind, names in OWN_NAMES for name in names.split()]
)
def test_names_that_only_background_threads_have(name: str, kind: str) -> None:
    found = kind_of(thread(name), SILENT)
    assert found == kind
    # Then nothing else counts.
    late = thread(name, tid=140, started_ticks=900, sockets=frozenset({"client"}))
    assert kind_of(late, SILENT) == kind


def test_the_first_thread_is_the_main_one() -> None:
    assert kind_of(thread(tid=100, sockets=frozenset({"listening"})), REPORTING) == "main"
    assert kind_of(thread("ib_log_writer", tid=100), SILENT) == "main"


def test_server_report_outranks_observation() -> None:
    seen = frozenset({"client"})
    assert kind_of(thread(reported="purge", sockets=seen), REPORTING) == "purge"
    assert kind_of(thread(reported="background", sockets=seen), REPORTING) == "background"
    assert kind_of(thread(reported="connection"), REPORTING) == "connection"
    assert (
        kind_of(thread("connection", reported="connection", sockets=seen), REPORTING)
        == "connection"
    )


def test_sessions_of_millrace_are_no_clients() -> None:
    own = frozenset({"own"})
    assert kind_of(thread(reported="connection", sockets=own), REPORTING) == "observer"
    assert kind_of(thread(reported="observer"), REPORTING) == "observer"
    # It was observed, unless the server reported it.
    assert kind_of(thread(reported="background", sockets=own), REPORTING) == "observer"
    late = thread(tid=140, started_ticks=900, sockets=own)
    assert kind_of(late, SILENT) == "observer"


def test_who_did_nothing_was_no_client() -> None:
    kept = thread("connection", tid=140, started_ticks=900, ran=False)
    assert kind_of(kept, SILENT) == "background"
    idle = thread(tid=140, started_ticks=900, ran=False, sockets=frozenset({"client"}))
    assert kind_of(idle, SILENT) == "background"
    assert kind_of(thread(reported="connection", ran=False), REPORTING) == "background"


def test_who_waits_on_a_socket() -> None:
    assert kind_of(thread(sockets=frozenset({"client"})), SILENT) == "connection"
    assert kind_of(thread(sockets=frozenset({"client"})), REPORTING) == "connection"
    assert kind_of(thread(sockets=frozenset({"listening"})), SILENT) == "main"
    assert kind_of(thread(waited_for_io=True), SILENT) == "io"


def test_workers_of_a_pool_serve_whoever_has_a_request() -> None:
    worker: dict[str, Any] = {"tid": 140, "started_ticks": 900, "reported": "pool"}
    assert kind_of(thread(**worker), REPORTING) == "pool"
    for use in ("client", "own"):
        assert kind_of(thread(**worker, sockets=frozenset({use})), REPORTING) == "pool"
    assert kind_of(thread(**worker, ran=False), REPORTING) == "background"


def test_late_threads_are_background_when_all_sessions_are_reported() -> None:
    assert kind_of(thread("mariadbd", tid=140, started_ticks=900), REPORTING) == "background"


@pytest.mark.parametrize(
    ("tid", "started_ticks", "kind"),
    [
        (140, 900, "connection"),
        (131, 500, "connection"),  # just after
        (129, 500, "background"),  # just before
        (140, 499, "background"),  # numbers restart once they are used up
    ],
)
def test_servers_that_tell_nothing_start_only_connections_late(
    tid: int, started_ticks: int, kind: str
) -> None:
    assert kind_of(thread(tid=tid, started_ticks=started_ticks), SILENT) == kind


def test_late_threads_of_a_server_that_only_wait_for_a_lock_are_its_own() -> None:
    late = thread(tid=140, started_ticks=900, waited_for_locks=True)
    assert kind_of(late, SILENT) == "background"
    client = thread(
        tid=140, started_ticks=900, waited_for_locks=True, sockets=frozenset({"client"})
    )
    assert kind_of(client, SILENT) == "connection"


def test_where_nothing_is_known_it_is_background() -> None:
    blind = replace(SILENT, ready=None)
    assert kind_of(thread(tid=140, started_ticks=900), blind) == "background"


def test_the_threads_that_apply_are_the_connections_of_a_replica() -> None:
    threads = {tid: Thread(tid, "", 0, ran=tid != 5) for tid in range(1, 6)}
    kinds = {1: "coordinator", 2: "connection", 3: "observer", 4: "applier", 5: "applier"}
    found = of_replica(kinds, threads)
    assert found == {**kinds, 2: "background", 4: "connection"}, "4 works, and 1 gives it its work"
    alone = of_replica({**kinds, 4: "background"}, threads)
    assert alone[1] == "connection"
    assert alone[2] == "background", "its source is not a client of a replica"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("rpl_rca_wkr-0", "applier"),
        ("rpl_rca_sql-0", "coordinator"),
        ("rpl_rca_io-0", "background"),
        ("slave_sql", "coordinator"),
        ("slave_io", "background"),
    ],
)
def test_threads_of_a_replica_have_names(name: str, kind: str) -> None:
    families = [databases.get(family).monitoring.threads.own for family in ("mysql", "mariadb")]
    for names in families:
        server = Server(1, None, reports_sessions=False, names=names)
        assert kind_of(Thread(9, name, 0, ran=True), server) == kind
