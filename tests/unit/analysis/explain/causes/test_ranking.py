"""Test the likely causes named for each true cause, their order and their words."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.analysis.certainty import Certainty
from millrace.analysis.explain.causes.model import LikelyCause
from millrace.analysis.explain.causes.ranking import rank_causes
from millrace.analysis.explain.profiles import LeadingFunction
from tests.support.cause_cases import BUILD, EXACT, Seen, case, host, named, suspects, truth
from tests.support.observed_trials import Scene, Truth

PLAN = {"id": 1, "select_type": "SIMPLE", "table": "sbtest1", "type": "range", "key": "k_1",
        "rows": 10, "Extra": None}  # fmt: skip
SCAN = {**PLAN, "type": "ALL", "key": None, "rows": 10000, "Extra": "Using where"}


def plans(row: dict[str, Any]) -> dict[str, Any]:
    return {"plans": {"range": {"sql": "SELECT 1", "rows": [row], "error": None}}}


BINARY_LOG = (
    Seen(
        truth(log_flush=400.0),
        {"Innodb_os_log_fsyncs": 1.0, "Innodb_rows_updated": 1.0},
        effective={"log_bin": "OFF", "sync_binlog": "1"},
    ),
    Seen(
        truth(log_flush=1200.0, cpu_user=25.0),
        {"Innodb_os_log_fsyncs": 1.0, "Innodb_rows_updated": 1.0},
        effective={"log_bin": "ON", "sync_binlog": "1"},
    ),
)
INSTRUMENTS = (
    Seen(truth(), effective={"performance_schema": "ON"}),
    Seen(
        truth(cpu_user=40.0),
        effective={"performance_schema": "ON"},
        asked={"performance-schema-instrument": "%=ON"},
    ),
)
BUFFER_POOL = (
    Seen(
        truth(),
        {"Innodb_buffer_pool_reads": 0.0},
        effective={"innodb_buffer_pool_size": "268435456"},
    ),
    Seen(
        truth(data_read=700.0, lock=40.0, runnable=4.0),
        {"Innodb_buffer_pool_reads": 6.5},
        effective={"innodb_buffer_pool_size": "8388608"},
    ),
)
FLUSH = (
    Seen(truth(), {"Innodb_os_log_fsyncs": 0.001},
         effective={"innodb_flush_log_at_trx_commit": "2"}),
    Seen(truth(log_flush=800.0), {"Innodb_os_log_fsyncs": 1.0},
         effective={"innodb_flush_log_at_trx_commit": "1"}),
)  # fmt: skip
CPU_LIMIT = (
    Seen(truth(runnable=200.0), sections={"host": host(server_limits={"cpus": 2})}),
    Seen(truth(runnable=900.0, wire=10.0), sections={"host": host(server_limits={"cpus": 1})}),
)
DROPPED_INDEX = (
    Seen(truth(), {"Innodb_rows_read": 10.0}, plans(PLAN)),
    Seen(truth(cpu_user=2300.0), {"Innodb_rows_read": 10_000.0}, plans(SCAN)),
)
ROW_LOCK = (
    Seen(
        truth(runnable=500.0, log_flush=900.0),
        {"Innodb_row_lock_time": 0.0, "Innodb_row_lock_waits": 0.0},
        levels={"test": "update-nonindex"},
    ),
    Seen(
        truth(runnable=60.0, lock=9000.0, log_flush=900.0),
        {"Innodb_row_lock_time": 8.8, "Innodb_row_lock_waits": 0.97},
        levels={"test": "update-one"},
    ),
)
TLS = (
    Seen(truth(), levels={"tls": False}),
    Seen(truth(cpu_user=28.0, wire=26.0), levels={"tls": True}),
)
SLOW_CLIENT = (Seen(truth()), Seen(truth(wire=80.0)))
COMPRESSION = (Seen(truth()), Seen(truth(cpu_user=120.0, lock=2.0)))
COMPRESSION_GROUPS = {"compression": (0.0, 80.0), "btree": (10.0, 24.0), "memory": (2.0, 3.0)}
BURNT_CORE = (
    Seen(truth(runnable=30.0)),
    Seen(
        truth(runnable=260.0, wire=40.0, cpu_user=21.0),
        sections={"host": host(other_cpu_s=3.0, others=[{"name": "burn", "pid": 7, "cpu_s": 3.0}])},
    ),
)

CAUSES = {
    "binary log": (BINARY_LOG, {}, ("option", "binary log")),
    "instruments": (INSTRUMENTS, {}, ("option", "Performance Schema")),
    "buffer pool": (BUFFER_POOL, {}, ("option", "buffer pool")),
    "flush at commit": (FLUSH, {}, ("option", "flush of the redo log at commit")),
    "limited CPU": (CPU_LIMIT, {}, ("environment", "CPU limit")),
    "dropped index": (DROPPED_INDEX, {}, ("plan", "plan")),
    "row lock": (ROW_LOCK, {}, ("lock", "row locks")),
    "TLS": (TLS, {}, ("option", "TLS")),
    "slow client": (SLOW_CLIENT, {}, ("client", "client and wire")),
    "compression": (COMPRESSION, {"groups": COMPRESSION_GROUPS}, ("compression", "compression")),
    "burnt core": (BURNT_CORE, {}, ("environment", "other processes")),
}


@pytest.mark.parametrize("name", CAUSES)
def test_each_cause_is_named_first(name: str) -> None:
    (a, b), more, expected = CAUSES[name]
    found = suspects(a, b, **more)
    assert named(found)[:1] == [expected]
    assert (found[0].us or 0.0) > 0
    assert not any(each.certainty == Certainty.SHOWN for each in found)


@pytest.mark.parametrize("name", CAUSES)
def test_a_gain_has_the_same_suspects_as_the_loss(name: str) -> None:
    (a, b), more, expected = CAUSES[name]
    if "groups" in more:
        more = {"groups": {key: (other, one) for key, (one, other) in more["groups"].items()}}
    found = suspects(b, a, **more)
    assert named(found)[:1] == [expected]
    assert all(each.us is not None and each.us < 0 for each in found)
    assert all(each.share is not None and each.share > 0 for each in found)
    assert not any("s more " in each.sentence for each in found)


@pytest.mark.parametrize("name", CAUSES)
def test_every_sentence_has_its_figures(name: str) -> None:
    (a, b), more, _ = CAUSES[name]
    for each in suspects(a, b, **more):
        assert "µs" in each.sentence or "ms" in each.sentence
        assert "of the difference of" in each.sentence or "whole difference of" in each.sentence
        assert "caused" not in each.sentence
        assert "  " not in each.sentence


@pytest.mark.parametrize("name", CAUSES)
@given(factor=st.floats(0.1, 100))
@settings(max_examples=10, deadline=None)
def test_the_order_does_not_depend_on_the_unit(name: str, factor: float) -> None:
    (a, b), more, _ = CAUSES[name]
    slower = [
        replace(
            each,
            truth=each.truth.times(factor),
            counted={
                key: value * factor if key.endswith("_time") else value
                for key, value in each.counted.items()
            },
        )
        for each in (a, b)
    ]
    groups = {
        key: (one * factor, other * factor) for key, (one, other) in more.get("groups", {}).items()
    }
    assert named(suspects(*slower, groups=groups)) == named(suspects(a, b, **more))


@given(seed=st.integers(0, 10_000), clients=st.sampled_from([1, 16]))
@settings(max_examples=30, deadline=None)
def test_the_same_server_twice_has_no_suspect(seed: int, clients: int) -> None:
    same = Seen(truth(lock=20.0, log_flush=300.0, data_read=40.0))
    assert suspects(same, same, scene=Scene(clients=clients, rate_hz=1e6), seed=seed) == ()


@pytest.mark.parametrize("name", CAUSES)
def test_what_is_so_on_both_sides_is_not_named(name: str) -> None:
    """B has every cause, but A has each too: only a slower client remains."""
    (_, b), _more, expected = CAUSES[name]
    slower = replace(b, truth=replace(b.truth, wire=b.truth.wire + b.truth.latency))
    found = named(suspects(b, slower))
    if name == "slow client":
        return
    assert expected not in found
    assert found == [("client", "client and wire")]


def test_a_setting_that_costs_less_is_not_named() -> None:
    a, b = FLUSH
    turned = (replace(a, effective=b.effective), replace(b, effective=a.effective))
    assert named(suspects(*turned)) == [("storage", "flushes of the log")]


def test_a_setting_that_moves_other_parts_is_not_named() -> None:
    a, b = SLOW_CLIENT
    a = replace(a, effective={"innodb_flush_log_at_trx_commit": "2"})
    b = replace(b, effective={"innodb_flush_log_at_trx_commit": "1"})
    assert named(suspects(a, b)) == [("client", "client and wire")]


def test_sync_binlog_counts_only_with_a_binary_log() -> None:
    a, b = BINARY_LOG
    settings_a = {"log_bin": "OFF", "sync_binlog": "0"}
    settings_b = {"log_bin": "OFF", "sync_binlog": "1"}
    found = suspects(replace(a, effective=settings_a), replace(b, effective=settings_b))
    assert ("option", "binary log") not in named(found)


def test_a_binary_log_counts_only_where_rows_change() -> None:
    a, b = (replace(each, counted={"Innodb_rows_read": 1.0}) for each in BINARY_LOG)
    assert ("option", "binary log") not in named(suspects(a, b))


def test_a_disturbance_of_both_is_not_named() -> None:
    a, b = BURNT_CORE
    found = suspects(replace(a, sections=b.sections), b)
    assert "environment" not in [each.kind for each in found]


def test_what_is_in_a_part_does_not_name_what_disturbed_less_than_it_matters() -> None:
    a, b = BURNT_CORE
    little = replace(b, sections={"host": host(other_cpu_s=0.1)})
    assert "environment" not in [each.kind for each in suspects(a, little)]


def test_an_environment_outranks_a_setting() -> None:
    a, b = BURNT_CORE
    a = replace(a, effective={"thread_handling": "one-thread-per-connection"})
    b = replace(b, effective={"thread_handling": "pool"})
    assert [each.kind for each in suspects(a, b)][:2] == ["environment", "option"]


@pytest.mark.parametrize(
    ("section", "about"),
    [
        ({"cpu": {"steal_s": 1.0}}, "stolen CPU time"),
        ({"frequency_mhz": {"mean": 2000.0}}, "clock of the CPUs"),
        ({"pressure": {"memory_full_s": 0.5}}, "memory pressure"),
        ({"memory": {"swap_used_bytes": 1e9}}, "swapping"),
    ],
)
def test_further_disturbances(section: dict[str, Any], about: str) -> None:
    a = Seen(truth(runnable=30.0))
    b = Seen(truth(runnable=260.0), sections={"host": host(**section)})
    assert named(suspects(a, b))[0] == ("environment", about)


def test_functions_name_a_build_above_what_they_took() -> None:
    a = Seen(truth(), build={**BUILD, "allocator": "jemalloc"})
    b = Seen(truth(cpu_user=40.0))
    found = suspects(a, b, groups={"memory": (5.0, 24.0)})
    assert named(found)[:2] == [("build", "memory allocator"), ("cpu", "memory")]
    without = suspects(a, b, groups={"btree": (5.0, 24.0)})
    assert ("build", "memory allocator") not in named(without)


def test_without_a_profile_a_build_comes_after_the_time_itself() -> None:
    a = Seen(truth(), build={**BUILD, "allocator": "jemalloc"})
    found = suspects(a, Seen(truth(cpu_user=40.0)))
    assert named(found) == [("cpu", "CPU time"), ("build", "memory allocator")]


def test_a_queue_for_cpus_that_grows_with_cpu_time_is_that_cpu_time() -> None:
    clients = Scene(clients=16, rate_hz=1e6)
    a = Seen(truth(runnable=480.0, cpu_user=20.0))
    b = Seen(truth(runnable=760.0, cpu_user=41.0))
    found = suspects(a, b, scene=clients)
    assert named(found)[0] == ("cpu", "CPU time")
    assert (found[0].share or 0.0) > 0.8
    limited = suspects(a, Seen(truth(runnable=760.0)), scene=clients)
    assert named(limited)[0] == ("cpu", "queue for CPUs")


def timed(*wait_s: float) -> dict[str, Any]:
    """Return the timed waits of some mutexes."""
    events = [
        {"name": f"wait/synch/mutex/innodb/mutex_{number}", "count": 9, "wait_s": each}
        for number, each in enumerate(wait_s)
    ]
    return {"waits": {"enabled": True, "why": None, "events": events}}


def test_locks_that_are_no_row_locks() -> None:
    a = Seen(truth(), {"Innodb_row_lock_time": 0.0}, timed(0.1, 0.1))
    b = Seen(truth(lock=50.0), {"Innodb_row_lock_time": 0.0}, timed(1.0, 0.4))
    (found,) = suspects(a, b)
    assert (found.kind, found.about) == ("lock", "mutexes")
    assert "mutex_0" in found.sentence
    assert [line.partition(",")[0] for line in found.evidence] == [
        "wait/synch/mutex/innodb/mutex_1"
    ]


def test_waits_that_one_side_alone_timed_are_no_more_than_those_of_the_other() -> None:
    a = Seen(truth(), {"Innodb_row_lock_time": 0.0})
    b = Seen(truth(lock=50.0), {"Innodb_row_lock_time": 0.0}, timed(1.0))
    (found,) = suspects(a, b)
    assert "mutex_0" not in found.sentence
    assert found.evidence == ()


def test_row_locks_held_while_the_log_is_flushed() -> None:
    """Threads that wait for the row seem to wait for the flush.

    The server's counters know better."""
    a, b = ROW_LOCK
    b = replace(b, truth=truth(runnable=60.0, log_flush=9900.0))
    assert named(suspects(a, b))[0] == ("lock", "row locks")


def flushed(flush_s: float) -> dict[str, dict[str, Any]]:
    """Return a disk that was flushed 3000 times, with this total time."""
    return {
        "disk": {
            "device": "vda", "reads": 0, "writes": 900, "read_bytes": 0, "write_bytes": 1,
            "flushes": 3000, "read_s": 0.0, "write_s": 0.1, "flush_s": flush_s, "busy_s": 2.8,
        }
    }  # fmt: skip


def test_a_flush_rate_predicts_the_time() -> None:
    flushes = flushed(2.7)
    a, b = FLUSH
    found = suspects(replace(a, effective={}), replace(b, effective={}, sections=flushes))
    assert named(found) == [("storage", "flushes of the log")]
    assert "3,000 flushes of the device at 900 µs each (1,111/s) predict 2.7 s" in found[0].sentence
    assert not any("predict" in line for line in found[0].evidence)


def test_a_plan_counts_less_where_it_reads_less() -> None:
    a, b = DROPPED_INDEX
    a = replace(a, counted={"Innodb_rows_read": 20_000.0}, effective={"performance_schema": "ON"})
    b = replace(b, effective=a.effective, asked={"performance-schema-instrument": "%=ON"})
    assert named(suspects(a, b))[0] == ("option", "Performance Schema")


def test_one_block_names_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.cause_cases.BLOCKS", 1)
    (a, b), _, _ = CAUSES["TLS"]
    assert suspects(a, b) == ()


def test_a_difference_within_the_margin_names_nothing() -> None:
    (a, b), _, _ = CAUSES["TLS"]
    assert rank_causes(replace(case(a, b), margin=0.9)) == ()


def test_the_words_of_a_setting() -> None:
    found: tuple[LikelyCause, ...] = suspects(*BINARY_LOG)
    assert found[0].settings == {"log_bin": ("OFF", "ON")}
    assert found[0].sentence.startswith(
        "log_bin is OFF in A and ON in B: each transaction is written to the binary log too, and "
        "flushed with it as often as sync_binlog says; consistent with "
    )
    assert "waiting for the log to be flushed" in found[0].sentence


SOME_MORE_CPU = (Seen(truth(cpu_user=200.0, runnable=2000.0)),
                 Seen(truth(cpu_user=800.0, runnable=7000.0)))  # fmt: skip


def test_cpu_time_names_the_functions_of_a_profile() -> None:
    a, b = Seen(truth()), Seen(truth(cpu_user=40.0))
    (cause,) = [each for each in suspects(a, b) if each.about == "CPU time"]
    assert "and no profile tells in which functions" in cause.sentence
    functions = (
        LeadingFunction("row_search_mvcc", 12.0, 10.0, 14.0, 0.7),
        LeadingFunction("filesort", 3.0, 2.0, 4.0, 0.2, with_callees=True),
        LeadingFunction("less", -3.0, -4.0, -2.0, 0.2),
    )
    for one, other, sign in ((a, b, 1), (b, a, -1)):
        seen = case(one, other, groups={"other": (1.0, 1.0)})
        found = tuple(replace(each, us=sign * each.us) for each in functions)
        profiled = rank_causes(replace(seen, functions=found))
        (cause,) = [each for each in profiled if each.about == "CPU time"]
        said = "(12 µs in row_search_mvcc and 3 µs in filesort and what it calls)"
        assert said in cause.sentence.replace("-", "")
        assert "less" not in cause.sentence.partition("(")[2]


def test_more_cpu_time_is_named_with_its_share_of_the_queue() -> None:
    """Three times the CPU time makes all threads queue three times as long."""
    found = suspects(*SOME_MORE_CPU, scene=Scene(clients=16, rate_hz=1e6))
    assert named(found)[0] == ("cpu", "CPU time")
    assert (found[0].share or 0.0) > 0.9
    assert re.search(r"60\d µs more a transaction, most of it in user code", found[0].sentence)
    assert re.search(r"plus an estimated 5,0\d\d µs of the queue for CPUs", found[0].sentence)


def test_cpu_time_comes_first_when_groups_make_less_than_most() -> None:
    scene = Scene(clients=16, rate_hz=1e6)
    groups = {"btree": (50.0, 300.0), "locking": (10.0, 60.0), "memory": (5.0, 4.0)}
    found = suspects(*SOME_MORE_CPU, scene=scene, groups=groups)
    assert named(found)[:3] == [("cpu", "CPU time"), ("cpu", "btree"), ("cpu", "locking")]
    result = r"\(250 µs for btree, 50 µs for locking and 30\d µs for all else\)"
    assert re.search(result, found[0].sentence)
    most = suspects(*SOME_MORE_CPU, scene=scene, groups={"btree": (50.0, 640.0)})
    assert named(most)[0] == ("cpu", "btree")
    assert "plus an estimated" in most[0].sentence


def test_a_queue_that_no_cpu_time_explains_is_named_whole() -> None:
    a, b = Seen(truth(runnable=200.0)), Seen(truth(runnable=900.0))
    (found,) = suspects(a, b)
    assert found.about == "queue for CPUs"
    assert found.share == pytest.approx(1, abs=0.02)


def test_the_plans_of_other_statements_are_evidence() -> None:
    def reading(name: str, **columns: Any) -> dict[str, Any]:
        return {"plans": {name: {"sql": "", "rows": [{**PLAN, **columns}], "error": None}}}

    a, b = SOME_MORE_CPU
    a = replace(a, sections=reading("covering", Extra="Using index"))
    b = replace(b, sections=reading("lookup"))
    found = suspects(a, b, scene=Scene(clients=16, rate_hz=1e6))
    assert named(found)[0] == ("cpu", "CPU time")
    assert found[0].evidence == (
        "covering (A) reads sbtest1 by index k_1 alone (Using index)",
        "lookup (B) reads sbtest1 by index k_1, and looks the row of each entry up in the table",
    )


@pytest.mark.parametrize("name", CAUSES)
def test_three_blocks_are_enough_for_a_large_effect(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.cause_cases.BLOCKS", 3)
    (a, b), more, expected = CAUSES[name]
    assert named(suspects(a, b, **more))[0] == expected


@pytest.mark.parametrize("blocks", [3, 7])
def test_a_part_that_did_not_move_is_rarely_called_moved(
    blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare a slower client, and parts that vary between trials as on busy hosts."""
    monkeypatch.setattr("tests.support.cause_cases.BLOCKS", blocks)
    source = np.random.default_rng(20_261_140)
    steady = truth(lock=40.0, log_flush=300.0, data_write=20.0, fsync=30.0, runnable=50.0)

    def noisy(result: Truth) -> Truth:
        def by(us: float) -> float:
            return us * float(source.lognormal(0, 0.2))

        return replace(
            result,
            cpu_user=by(result.cpu_user),
            cpu_system=by(result.cpu_system),
            runnable=by(result.runnable),
            waits={name: by(us) for name, us in result.waits.items()},
        )

    repeats, wrong = 100, 0
    for seed in range(repeats):
        found = case(
            Seen(steady), Seen(replace(steady, wire=1500.0)), seed=seed, scene=EXACT, noisy=noisy
        )
        wrong += bool(found.growth_us.keys() - {"client_wire"})
    assert wrong / repeats <= 0.1


def test_a_function_group_counts_where_it_differs_among_all() -> None:
    a, b = SOME_MORE_CPU
    found = case(a, b, groups={"btree": (50.0, 300.0)})
    (group,) = found.groups
    assert found.group_growth_us
    unsure = replace(found, groups=(replace(group, significant=False),))
    assert not unsure.group_growth_us


def test_a_wait_that_is_longer_than_the_locks_is_no_evidence_for_them() -> None:
    def waits(us: float) -> dict[str, Any]:
        latch = "wait/synch/rwlock/innodb/btr_search_latch"
        events = [{"name": latch, "count": 9, "wait_s": us}]
        return {"waits": {"enabled": True, "why": None, "events": events}}

    a = Seen(truth(), {"Innodb_row_lock_time": 0.0})
    b = Seen(truth(lock=50.0), {"Innodb_row_lock_time": 0.0}, waits(20.0))
    (found,) = suspects(a, b)
    assert found.evidence == ()
    assert "instruments" not in found.sentence


def test_flushes_that_overlap_are_no_prediction() -> None:
    flushes = flushed(12.0)
    a, b = (replace(each, effective={}, sections=flushes) for each in FLUSH)
    sentence = suspects(a, b)[0].sentence
    assert "took 12 s, in sum over overlapping flushes, of a trial of 3 s" in sentence
    assert "predict" not in sentence
