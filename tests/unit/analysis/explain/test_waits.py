"""Test waits, digests and stages of two servers, and the coverage of instruments."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from millrace.analysis.explain import waits
from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.time_breakdown import time_breakdown
from tests.support.known import known
from tests.support.observed_trials import Scene, Truth, seen

TRUTH = Truth(waits={"lock": 20.0, "log_flush": 30.0})
SCENE = Scene(rate_hz=1e6)
OPERATIONS = SCENE.operations(TRUTH)
MUTEX, FILE = "wait/synch/mutex/innodb/trx_sys_mutex", "wait/io/file/innodb/innodb_log_file"


def event(name: str, us: float, count: float = 1.0) -> dict[str, Any]:
    """Return a wait of this many µs of an operation."""
    return {"name": name, "count": count * OPERATIONS, "wait_s": us * 1e-6 * OPERATIONS}


def trial(block: int = 0, **sections: Any) -> ObservedTrial:
    return SCENE.trial(TRUTH, block, {**SCENE.document(TRUTH), **sections})


def waiting(*events: dict[str, Any]) -> dict[str, Any]:
    return {"enabled": True, "why": None, "events": list(events)}


def test_the_largest_of_each_side_stand_beside_each_other() -> None:
    many = [event(f"wait/synch/mutex/sql/m{n}", 1 + n) for n in range(20)]
    a = [trial(block, waits=waiting(*many, event(MUTEX, 50))) for block in range(2)]
    others = waiting(event(FILE, 70, 0.5), event(many[0]["name"], 9))
    b = [trial(block, waits=others) for block in range(2)]
    found = waits.compare_waits(a, b)
    assert [row.name for row in found[:2]] == [FILE, MUTEX]
    assert len(found) == 12  # ten of A and two of B, one of which is small in A
    assert found[0].a is None
    assert known(found[0].b).us == pytest.approx(70)
    assert known(found[0].b).seconds == pytest.approx(70e-6 * OPERATIONS)
    small = next(row for row in found if row.name.endswith("/m0"))
    assert known(small.a).us == pytest.approx(1)


def test_wait_counts_as_zero_when_a_trial_has_none() -> None:
    a = [trial(0, waits=waiting(event(MUTEX, 50))), trial(1, waits=waiting())]
    (row,) = waits.compare_waits(a, [])
    assert known(row.a).us == pytest.approx(25)


def test_a_rate_is_all_seconds_by_all_operations() -> None:
    """A slow trial has fewer operations, and the columns of one table must add up."""
    slow = SCENE.trial(
        TRUTH.times(4), 1, {**SCENE.document(TRUTH.times(4)), "waits": waiting(event(FILE, 6.0))}
    )
    fast = trial(waits=waiting(event(FILE, 2.0)))
    (row,) = waits.compare_waits([fast, slow], [])
    operations = fast.observed.operations + slow.observed.operations
    assert known(row.a).us == pytest.approx(1e6 * 2 * known(row.a).seconds / operations)


def test_trials_that_measured_no_waits_say_nothing_about_them() -> None:
    off = {"enabled": False, "why": "performance_schema is off", "events": []}
    (row,) = waits.compare_waits(
        [trial(0, waits=off), trial(1, waits=waiting(event(MUTEX, 50)))], []
    )
    assert known(row.a).us == pytest.approx(50)


def test_stages_are_compared_too() -> None:
    stages = [{"name": "stage/sql/Opening tables", "count": 10, "wait_s": 0.5}]
    (row,) = waits.compare_stages([trial(stages=stages)], [trial()])
    assert (known(row.a).seconds, row.b) == (0.5, None)


def test_digests_are_matched_by_their_text() -> None:
    def digest(text: str, us: float, **rows: Any) -> dict[str, Any]:
        return {"text": text, "count": OPERATIONS, "wait_s": us * 1e-6 * OPERATIONS, "lock_s": 0.0,
                "cpu_s": None, "rows_examined": 10 * OPERATIONS, **rows}  # fmt: skip

    a = [trial(digests=[digest("SELECT `c` FROM `t` WHERE `id` = ?", 40)])]
    b = [trial(digests=[digest("SELECT `c` FROM `t` WHERE `id` =  ?", 60), digest("COMMIT", 5)])]
    found = waits.compare_digests(a, b)
    assert [row.text for row in found] == ["SELECT `c` FROM `t` WHERE `id` = ?", "COMMIT"]
    one, other = found[0].a, found[0].b
    assert one is not None
    assert one.us == pytest.approx(40)
    assert known(other).us == pytest.approx(60)
    assert one.per_operation == pytest.approx(1)
    assert one.rows_examined == pytest.approx(10)
    assert (one.lock_us, one.cpu_us, one.rows_sent) == (0.0, None, None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (MUTEX, True),
        (FILE, True),
        ("wait/synch/sxlock/innodb/index_tree_rw_lock", True),
        ("wait/synch/rwlock/innodb/hash_table_locks", True),
        ("wait/lock/metadata/sql/mdl", True),
        ("wait/synch/cond/sql/MYSQL_BIN_LOG::COND_done", True),
        ("wait/synch/cond/sql/MDL_context::COND_wait_status", True),
        ("wait/synch/cond/mysys/my_thread_var::suspend", True),
        ("wait/synch/cond/sql/COND_compress_gtid_table", False),
        ("wait/synch/cond/innodb/some_background", False),
        ("wait/io/table/sql/handler", False),  # all work of the engine
        ("wait/io/socket/sql/client_connection", False),
        ("idle", False),
    ],
)
def test_waits_of_sessions_are_recognised(name: str, expected: bool) -> None:
    assert waits.is_of_sessions(name) == expected


def covered(trials: Sequence[ObservedTrial], spinning_us: float | None) -> float | None:
    found = known(time_breakdown(trials))
    result = waits.coverage(trials, found, spinning_us=spinning_us)
    return None if result is None else result.share


def test_instrumented_waits_cover_so_much_of_what_was_lost() -> None:
    events = (event(MUTEX, 10), event(FILE, 15), event("wait/io/table/sql/handler", 400))
    assert covered([trial(waits=waiting(*events))], None) == pytest.approx(0.5, abs=1e-3)
    assert covered([trial(waits=waiting(*events))], 50.0) == pytest.approx(0.25, abs=1e-3)


def test_no_coverage_without_instruments_or_samples() -> None:
    assert covered([trial()], 5.0) is None
    bare = SCENE.trial(TRUTH, 0, {"waits": waiting(event(MUTEX, 10))})
    assert covered([bare], None) is None


def test_coverage_includes_the_queue() -> None:
    trials = [trial(waits=waiting(event(MUTEX, 10)))]
    found = known(time_breakdown(trials))
    result = known(waits.coverage(trials, found, spinning_us=None))
    assert result.queue_us == pytest.approx(TRUTH.runnable)


def test_no_coverage_where_not_all_that_blocks_is_known() -> None:
    """Idle threads of a pool wait as for a lock."""
    scene = Scene(clients=2, serving="pool")
    document = {**scene.document(TRUTH), "waits": waiting(event(MUTEX, 10))}
    made = scene.attempt(TRUTH, document)
    instance = replace(made.instances[0], effective={"thread_handling": "pool-of-threads"})
    made = replace(made, instances=(instance,))
    assert covered([ObservedTrial("trial", 0, made, seen(made, 2))], None) is None
