"""Test that settings are suspected only where they can have acted, and of no more than that."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from millrace.analysis.certainty import Certainty
from millrace.analysis.explain.causes.evidence import Evidence, SideEvidence, kinds_of_statements
from millrace.analysis.explain.causes.model import LikelyCause
from millrace.analysis.explain.causes.ranking import Contrast, rank_causes, rank_facts
from millrace.analysis.explain.efficiency import compare_efficiency
from millrace.model.instance_facts import InstanceFacts
from millrace.stats.mean import MeanEstimate
from tests.support.cause_cases import Seen, case, named, suspects, truth

COMMITS = {"Innodb_log_write_requests": 9.0, "Binlog_cache_use": 1.0, "binary_log_bytes": 430.0}


def about(found: tuple[LikelyCause, ...]) -> list[str]:
    return [each.about for each in found if each.kind == "option"]


def only_option(found: tuple[LikelyCause, ...]) -> LikelyCause:
    (only,) = [each for each in found if each.kind == "option"]
    return only


def estimate(us: float, half: float) -> MeanEstimate:
    return MeanEstimate(us, us - half, us + half, 4, 0.95, 0.01)


def in_statements(found: Evidence, us: Mapping[str, float], half: float = 5.0) -> Evidence:
    """Return the evidence with these differences of statements, in µs of an operation."""
    texts = {
        "BEGIN": "BEGIN", "COMMIT": "COMMIT", "claim": "SELECT 1 FOR UPDATE", "done": "UPDATE t",
    }  # fmt: skip
    return replace(
        found,
        statements={name: estimate(each, half) for name, each in us.items()},
        statement_kinds=kinds_of_statements(texts, {"COMMIT": 1.0}),
    )


CHECKSUMS = ("innodb_checksum_algorithm", "crc32", "innodb")
OF_PAGES = {
    "checksums of pages": CHECKSUMS,
    "doublewrite": ("innodb_doublewrite", "OFF", "ON"),
    "writing of dirty pages": ("innodb_io_capacity", "200", "10000"),
    "asynchronous I/O": ("innodb_use_native_aio", "ON", "OFF"),
    "purge": ("innodb_purge_threads", "1", "4"),
    "keeping pages": ("innodb_old_blocks_time", "0", "1000"),
    "blocks of the redo log": ("innodb_log_write_ahead_size", "4096", "8192"),
    "memory for temporary tables": ("tmp_table_size", "64M", "16M"),
    "MyISAM's keys": ("key_buffer_size", "64M", "8M"),
}


def of_one_setting(name: str, cheap: str, dear: str, counted: Mapping[str, float]) -> Any:
    slower = truth(cpu_user=725.0, lock=40.0, data_write=40.0, data_read=40.0, log_flush=40.0)
    a = Seen(truth(), counted, effective={name: cheap})
    return suspects(a, Seen(slower, counted, effective={name: dear}))


@pytest.mark.parametrize("topic", OF_PAGES)
def test_what_needs_pages_is_not_suspected_of_cached_reads(topic: str) -> None:
    cached = {"Innodb_buffer_pool_read_requests": 877.0, "Handler_read_rnd_next": 50_000.0}
    assert about(of_one_setting(*OF_PAGES[topic], cached)) == []


@pytest.mark.parametrize(
    ("topic", "counted"),
    [
        ("checksums of pages", {"Innodb_pages_read": 12.0}),
        ("doublewrite", {"Innodb_dblwr_pages_written": 1.0}),
        ("writing of dirty pages", {"Innodb_buffer_pool_pages_flushed": 1.0}),
        ("purge", {"Innodb_rows_updated": 1.0}),
        ("purge", {"Handler_delete": 1.0}),
    ],
)
def test_what_was_counted_may_have_acted(topic: str, counted: Mapping[str, float]) -> None:
    name, cheap, dear = OF_PAGES[topic]
    a = Seen(truth(), counted, effective={name: cheap})
    moved = truth(cpu_user=60.0) if topic == "purge" else truth(data_write=400.0)
    b = Seen(moved, counted, effective={name: dear})
    assert topic in about(suspects(a, b))


def test_more_temporary_tables_on_disk_make_their_memory_likely() -> None:
    sizes = {"a": {"tmp_table_size": "67108864"}, "b": {"tmp_table_size": "16777216"}}
    a = Seen(truth(), {"Created_tmp_disk_tables": 0.0}, effective=sizes["a"])
    b = Seen(truth(cpu_user=90.0), {"Created_tmp_disk_tables": 1.0}, effective=sizes["b"])
    assert about(suspects(a, b))[:1] == ["memory for temporary tables"]
    as_many = replace(a, counted=b.counted)
    assert about(suspects(as_many, b)) == []


# 998 µs of a transaction: 482 to claim, 433 to finish, 57 to commit.
JOBS = {"claim": 482.0, "done": 433.0, "COMMIT": 57.0, "BEGIN": 26.0}
QUEUED = (
    Seen(truth(lock=28.0), COMMITS, levels={"clients": 4},
         effective={"log_bin": "ON", "binlog_group_commit_sync_delay": "0"}),
    Seen(truth(lock=1026.0), COMMITS, levels={"clients": 4},
         effective={"log_bin": "ON", "binlog_commit_wait_usec": "100000",
                    "binlog_commit_wait_count": "0"}),
)  # fmt: skip


def test_a_delay_without_a_count_is_no_delay() -> None:
    assert about(suspects(*QUEUED)) == []
    a, b = QUEUED
    wait = {**b.effective, "binlog_commit_wait_count": "20"}
    without = {"log_bin": "ON", "binlog_commit_wait_usec": "0", "binlog_commit_wait_count": "20"}
    delay = only_option(suspects(replace(a, effective=without), replace(b, effective=wait)))
    assert delay.about == "delay of commits"
    assert delay.sentence.startswith(
        "binlog_commit_wait_usec is 0 in A and 100000 in B: each commit"
    )


DELAYED = (
    replace(QUEUED[0], effective={"log_bin": "ON", "binlog_group_commit_sync_delay": "0"}),
    replace(QUEUED[1], effective={"log_bin": "ON", "binlog_group_commit_sync_delay": "900"}),
)


def test_a_setting_of_the_binary_log_is_bounded_by_commit() -> None:
    assert about(rank_causes(in_statements(case(*DELAYED), JOBS))) == []
    in_commit = {**JOBS, "claim": 26.0, "COMMIT": 513.0}
    delay = only_option(rank_causes(in_statements(case(*DELAYED), in_commit)))
    assert delay.us == pytest.approx(513, rel=0.02)
    assert "at most 518 µs a transaction, 52 % of the difference" in delay.sentence
    assert delay.may_be_most


def test_a_share_of_less_than_half_is_no_main_cause() -> None:
    a, b = DELAYED
    found = in_statements(case(a, b), {**JOBS, "COMMIT": 300.0})
    delay = only_option(rank_causes(found))
    assert delay.share == pytest.approx(0.3, abs=0.01)
    assert not delay.may_be_most


def test_a_wait_for_a_row_counts_with_the_commit_that_it_waits_for() -> None:
    """Clients that wait for one row wait in the next UPDATE for the commit of others."""
    a, b = DELAYED
    b = replace(b, counted={**COMMITS, "Innodb_row_lock_time": 0.94})  # ms
    found = in_statements(
        case(replace(a, counted={**COMMITS, "Innodb_row_lock_time": 0.0}), b), JOBS
    )
    assert about(rank_causes(found)) == ["delay of commits"]


def test_kinds_of_statements() -> None:
    texts = {
        "read": "/* of a report */ SELECT c FROM t",
        "write": "insert into t values (?)",
        "COMMIT": "COMMIT",
        "BEGIN": "BEGIN",
        "call": "CALL p(?)",
        "unknown": None,
    }
    each = kinds_of_statements(texts, {"COMMIT": 1.0})
    assert each["read"] == {"reads"}
    assert each["write"] == {"writes"}
    assert each["COMMIT"] == {"commits"}
    assert each["BEGIN"] == set()
    assert each["call"] == each["unknown"] == {"reads", "writes", "commits"}
    for times in ({}, {"COMMIT": 0.4}):
        assert kinds_of_statements(texts, times)["write"] == {"writes", "commits"}


def test_a_switch_that_is_equal_is_not_named_for_others_of_its_kind() -> None:
    """The binary log is on in both, and as long: other settings do not get its words."""
    on = {"log_bin": "ON", "sync_binlog": "1"}
    of_57 = {**on, "transaction_write_set_extraction": "OFF", "gtid_mode": "OFF"}
    of_80 = {**on, "transaction_write_set_extraction": "XXHASH64", "gtid_mode": "ON"}
    a = Seen(truth(), COMMITS, effective=of_57)
    b = Seen(truth(cpu_user=60.0, log_flush=20.0), COMMITS, effective=of_80)
    found = suspects(a, b)
    assert "binary log" not in about(found)
    assert named(found)[0] == ("cpu", "CPU time")
    sets = only_option(found)
    assert (sets.about, sets.certainty) == ("write sets", Certainty.POSSIBLE)
    assert "binary log" not in sets.sentence


def with_faults(side: SideEvidence, count: float) -> SideEvidence:
    """Return a side whose server had ``count`` page faults in an operation."""
    trials = []
    for trial in side.trials:
        observed = trial.observed
        assert observed.process is not None
        usage = observed.process.model_copy(update={"minor_faults": count * observed.operations})
        trials.append(replace(trial, observed=replace(observed, process=usage)))
    return replace(side, trials=tuple(trials))


GROUPED = {"Created_tmp_tables": 1.6, "Handler_read_rnd_next": 50_000.0}


def test_another_variable_is_no_other_name() -> None:
    a = Seen(truth(), GROUPED, effective={"internal_tmp_disk_storage_engine": "InnoDB"})
    b = Seen(truth(cpu_user=400.0), GROUPED,
             effective={"internal_tmp_mem_storage_engine": "TempTable"})  # fmt: skip
    engine = only_option(suspects(a, b))
    assert engine.about == "engine of temporary tables"
    assert engine.settings == {"internal_tmp_mem_storage_engine": ("MEMORY", "TempTable")}
    assert engine.names == {
        "internal_tmp_mem_storage_engine": (None, "internal_tmp_mem_storage_engine")
    }
    assert engine.sentence.startswith(
        "internal_tmp_mem_storage_engine is TempTable in B, and A, which does not have it, works "
        "as with MEMORY: temporary tables in memory are made and read by another engine"
    )
    # A part that nobody measured does not bound it.
    assert "up to the whole difference of" in engine.sentence
    assert engine.evidence == ("Created_tmp_tables per transaction: 1.6 in A, 1.6 in B",)


def test_page_faults_make_the_engine_of_temporary_tables_likely() -> None:
    a = Seen(truth(), GROUPED)
    b = Seen(replace(truth(cpu_user=40.0), cpu_system=400.0), GROUPED,
             effective={"internal_tmp_mem_storage_engine": "TempTable"})  # fmt: skip
    found = case(a, b)
    many = replace(found, a=with_faults(found.a, 0.7), b=with_faults(found.b, 40.0))
    first, *_ = rank_causes(many)
    assert (first.about, first.certainty) == ("engine of temporary tables", Certainty.LIKELY)
    assert first.evidence[0] == "page faults of the server per transaction: 0.7 in A, 40 in B"
    few = replace(found, a=with_faults(found.a, 0.01), b=with_faults(found.b, 0.5))
    assert only_option(rank_causes(few)).certainty == Certainty.POSSIBLE


def test_the_option_that_alone_is_varied_is_the_cause() -> None:
    name = "internal_tmp_mem_storage_engine"
    a = Seen(truth(), GROUPED, effective={name: "MEMORY", "innodb_io_capacity": "200"})
    b = Seen(truth(cpu_user=400.0), GROUPED, effective={name: "TempTable"})
    found = rank_causes(replace(case(a, b), varied={name: ("MEMORY", "TempTable")}))
    first = found[0]
    assert (first.kind, first.about) == ("option", "engine of temporary tables")
    assert first.share == pytest.approx(1)
    assert first.certainty == Certainty.SHOWN
    assert first.sentence.startswith(
        f"{name} is MEMORY in A and TempTable in B, and nothing else differs: temporary tables in"
    )
    assert [each.about for each in found].count("engine of temporary tables") == 1


def test_an_option_that_nobody_knows_is_the_cause_where_it_alone_is_varied() -> None:
    a, b = Seen(truth()), Seen(truth(cpu_user=90.0))
    found = rank_causes(replace(case(a, b), varied={"some_new_option": ("1", "2")}))
    assert named(found)[0] == ("option", "some_new_option")
    assert found[0].settings == {"some_new_option": ("1", "2")}
    turned = rank_causes(replace(case(b, a), varied={"some_new_option": ("2", "1")}))
    assert named(turned)[0] == ("option", "some_new_option")


def test_options_of_a_varied_configuration_come_before_others() -> None:
    on = {"performance_schema": "ON", "userstat": "ON"}
    off = dict.fromkeys(on, "OFF")
    found = case(
        Seen(truth(), effective={**off, "transport": "socket"}),
        Seen(truth(cpu_user=60.0), effective={**on, "transport": "tcp"}),
    )
    varied = {"userstat": ("OFF", "ON"), "server_id": ("1", "2")}
    first, *_ = rank_causes(replace(found, varied=varied))
    assert (first.about, first.certainty) == ("counting by user", Certainty.LIKELY)
    others = {"some_new_option": ("1", "2"), "server_id": ("1", "2")}
    every = rank_causes(replace(found, varied=others))
    assert every[0].about == "configuration"
    assert every[0].sentence.startswith("some_new_option is 1 in A and 2 in B and server_id is 1")


def cached(hits: float, rows: float, cpu_user: float, **effective: str) -> Seen:
    counted = {"Qcache_hits": hits, "Handler_read_rnd_next": rows, "Innodb_rows_read": rows}
    return Seen(truth(cpu_user=cpu_user), counted, effective=effective)


def test_a_query_cache_that_answers_is_the_cause() -> None:
    a = cached(1.0, 0.1, 3.0, query_cache_type="ON", query_cache_size="67108864")
    b = cached(0.0, 40_000.0, 16_000.0)
    first, *_ = suspects(a, b)
    assert (first.kind, first.about) == ("option", "query cache")
    assert first.certainty == Certainty.LIKELY
    assert first.share == pytest.approx(1, abs=0.05)
    assert first.evidence == (
        "Qcache_hits per transaction: 1 in A, 0 in B",
        "Innodb_rows_read per transaction: 0.1 in A, 40,000 in B",
        "Handler_read_* per transaction: 0.1 in A, 40,000 in B",
    )
    assert first.names == {"query_cache_type": ("query_cache_type", None)}
    assert "the other server's query cache answers the same SELECTs" in first.sentence


def test_a_query_cache_without_hits_is_not_the_cause() -> None:
    a = cached(0.0, 40_000.0, 3.0, query_cache_type="ON", query_cache_size="67108864")
    b = cached(0.0, 40_000.0, 16_000.0)
    assert about(suspects(a, b)) == []


def test_isolation_and_deadlocks_matter_to_several_clients_alone() -> None:
    counted = {"Innodb_row_lock_waits": 1.0}
    one = {"transaction_isolation": "REPEATABLE-READ", "innodb_deadlock_detect": "ON"}
    other = {"tx_isolation": "READ-COMMITTED", "innodb_deadlock_detect": "OFF"}
    a = Seen(truth(), counted, effective=one)
    b = Seen(truth(lock=90.0), counted, effective=other)
    assert about(suspects(a, b)) == []
    a, b = (replace(each, levels={"clients": 4}) for each in (a, b))
    found = {each.about: each for each in suspects(a, b)}
    assert found.keys() >= {"isolation of transactions", "detection of deadlocks"}
    isolation = found["isolation of transactions"]
    assert isolation.sentence.startswith(
        "transaction_isolation is REPEATABLE-READ in A and tx_isolation is READ-COMMITTED in B: "
    )
    assert isolation.settings == {"tx_isolation": ("REPEATABLE-READ", "READ-COMMITTED")}
    assert isolation.names == {"tx_isolation": ("transaction_isolation", "tx_isolation")}


def test_redo_logs_are_compared_by_capacity() -> None:
    a = Seen(
        truth(),
        {"Innodb_pages_written": 1.0},
        effective={"innodb_log_file_size": "268435456", "innodb_log_files_in_group": "2"},
    )
    b = Seen(
        truth(data_write=90.0, lock=20.0),
        {"Innodb_pages_written": 3.0},
        effective={"innodb_redo_log_capacity": "104857600", "innodb_log_file_size": "50331648"},
        facts={"state": {"log_capacity_bytes": 104857600}},
    )
    (size,) = [each for each in suspects(a, b) if each.kind == "option"]
    assert size.about == "size of the redo log"
    assert size.sentence.startswith(
        "The redo log's capacity is 512M in A (innodb_log_file_size) and 100M in B "
        "(innodb_redo_log_capacity): "
    )
    assert size.settings == {"innodb_redo_log_capacity": ("536870912", "104857600")}
    computed = replace(b, facts={"state": {"log_capacity_bytes": 536870912}})
    assert about(suspects(a, computed)) == []


def collated(collation: str, cpu_user: float) -> Seen:
    facts = {"state": {"collations": {"user": [collation], "firm": [collation], "job": ["binary"]}}}
    settings = {"collation_server": collation}
    return Seen(truth(cpu_user=cpu_user), effective=settings, facts=facts)


def test_tables_of_another_collation_are_a_possible_cause() -> None:
    a, b = collated("utf8mb4_general_ci", 20.0), collated("utf8mb4_0900_ai_ci", 30.0)
    (tables,) = [each for each in suspects(a, b) if each.kind == "tables"]
    assert tables.certainty == Certainty.POSSIBLE
    assert tables.sentence.startswith(
        "Text of user and firm is compared by utf8mb4_general_ci in A and by utf8mb4_0900_ai_ci "
        "in B; consistent with "
    )
    grown = suspects(a, b, groups={"character_sets": (2.0, 11.0)})
    assert named(grown)[0] == ("tables", "collation of tables")
    assert grown[0].certainty == Certainty.LIKELY
    assert not [each for each in suspects(b, a) if each.about == "character set"]


def test_a_servers_collation_is_not_suspected_where_the_tables_have_the_same() -> None:
    a, b = collated("utf8mb4_general_ci", 20.0), collated("utf8mb4_general_ci", 30.0)
    b = replace(b, effective={"collation_server": "utf8mb4_0900_ai_ci"})
    assert about(suspects(a, b)) == []
    unknown = [replace(each, facts={}) for each in (a, b)]
    assert about(suspects(*unknown)) == ["character set"]


def facts_of(found: Evidence) -> tuple[LikelyCause, ...]:
    sides = (found.a.trials, found.b.trials)
    efficiency = compare_efficiency(*sides)
    return rank_facts(
        Contrast(found.a, found.b, "transaction", (), efficiency, (None, None), evidence=found)
    )


def test_a_fact_is_not_named_against_the_statements() -> None:
    found = in_statements(case(*DELAYED), JOBS, half=900.0)
    alike = replace(found, margin=1e6)  # nothing is certain
    (delay,) = [each for each in facts_of(alike) if each.kind == "option"]
    assert (delay.about, delay.may_be_most) == ("delay of commits", False)
    assert facts_of(in_statements(case(*DELAYED), JOBS)) == ()


def test_collations_are_a_fact() -> None:
    a, b = collated("utf8mb4_general_ci", 20.0), collated("utf8mb4_0900_ai_ci", 20.3)
    (fact,) = [each for each in facts_of(case(a, b)) if each.kind == "tables"]
    assert fact.certainty.is_fact
    assert not fact.may_be_most


def test_facts_of_old_runs_know_no_collations() -> None:
    assert InstanceFacts.model_validate({"state": {}}).state is not None
    assert case(Seen(), Seen()).a.collations is None
