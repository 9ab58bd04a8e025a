"""Test facts that may be behind a difference, whatever the times do."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from millrace.analysis.certainty import Certainty
from millrace.analysis.explain.causes.model import LikelyCause
from millrace.analysis.explain.causes.ranking import MOST_FACTS, Contrast, rank_facts, with_facts
from millrace.analysis.explain.efficiency import compare_efficiency
from millrace.analysis.explain.plans import compare_plans
from millrace.analysis.explain.time_breakdown import time_breakdown
from tests.support.cause_cases import EXACT, Seen, named, side, trials, truth

WRITES = {"Innodb_rows_inserted": 1.0}
WITHOUT_LOG = Seen(truth(), WRITES, effective={"log_bin": "OFF", "sync_binlog": "0"})
WITH_LOG = Seen(
    truth(),
    WRITES | {"binary_log_bytes": 80.0, "Binlog_cache_use": 1.0},
    effective={"log_bin": "ON", "sync_binlog": "1"},
)
SLOWER = truth(cpu_user=20.2)  # by chance, as it were


def contrast(a: Seen, b: Seen, *, with_times: bool = True) -> Contrast:
    noise = np.random.default_rng(1)
    of_a, of_b = (trials(each, EXACT, noise, lambda one: one) for each in (a, b))
    return Contrast(
        side("A", a, of_a),
        side("B", b, of_b),
        "transaction",
        compare_plans(of_a, of_b),
        compare_efficiency(of_a, of_b),
        (time_breakdown(of_a), time_breakdown(of_b)) if with_times else (None, None),
    )


def facts(a: Seen, b: Seen, **more: Any) -> tuple[LikelyCause, ...]:
    return rank_facts(contrast(a, b, **more))


@pytest.mark.parametrize("with_times", [True, False])
def test_a_binary_log_on_one_side_is_a_fact_with_its_bytes(*, with_times: bool) -> None:
    first, *_ = facts(WITHOUT_LOG, replace(WITH_LOG, truth=SLOWER), with_times=with_times)
    assert (first.kind, first.about) == ("option", "binary log")
    assert first.certainty.is_fact
    assert first.us is first.share is None
    assert first.settings == {"log_bin": ("OFF", "ON"), "sync_binlog": ("0", "1")}
    log, flush = first.sentence.split("; ")
    assert log.startswith("log_bin is OFF in A and ON in B: each transaction is written to the ")
    assert flush.startswith("sync_binlog is 0 in A and 1 in B: the binary log is flushed to the ")
    assert first.evidence == ("bytes of the binary log per transaction: 0 in A, 80 in B",)
    assert first.certainty == Certainty.FACT


def test_fact_is_marked_when_it_costs_the_faster_side() -> None:
    found = facts(replace(WITHOUT_LOG, truth=SLOWER), WITH_LOG)
    (log,) = [cause for cause in found if cause.about == "binary log"]
    assert log.certainty == Certainty.FACT_AGAINST
    assert log.sentence.endswith(" (it costs B, although B looks faster)")


def test_a_setting_that_cannot_act_on_these_operations_is_none() -> None:
    reads = {"Innodb_rows_read": 1.0}
    a, b = (replace(each, counted=reads, truth=SLOWER) for each in (WITHOUT_LOG, WITH_LOG))
    assert named(facts(a, b)) == []


def test_a_setting_acts_only_in_the_parts_that_take_time() -> None:
    a = Seen(truth(), effective={"innodb_doublewrite": "OFF"})
    pages = {"Innodb_dblwr_pages_written": 1.0}
    b = Seen(SLOWER, pages, effective={"innodb_doublewrite": "ON"})
    assert named(facts(a, b)) == []
    waiting = replace(b, truth=truth(cpu_user=20.2, data_write=40.0))
    assert named(facts(a, waiting))[0] == ("option", "doublewrite")


def test_setting_is_not_a_fact_when_any_value_may_cost_more() -> None:
    a = Seen(truth(), effective={"innodb_adaptive_hash_index": "ON"})
    b = Seen(SLOWER, effective={"innodb_adaptive_hash_index": "OFF"})
    assert facts(a, b) == ()


def test_a_general_log_is_a_fact() -> None:
    a = Seen(truth(), effective={"general_log": "OFF"})
    b = Seen(SLOWER, effective={"general_log": "ON"})
    assert named(facts(a, b)) == [("option", "general log")]


def test_a_plan_comes_first() -> None:
    def plan(access: str) -> dict[str, Any]:
        row = {"table": "t", "type": access, "key": None, "Extra": ""}
        return {"plans": {"range": {"sql": "SELECT 1", "rows": [row], "error": None}}}

    a = replace(WITHOUT_LOG, sections=plan("range"))
    b = replace(WITH_LOG, sections=plan("ALL"), truth=SLOWER)
    assert named(facts(a, b))[0] == ("plan", "plan")


def test_counters_of_an_operation_are_facts_where_they_can_take_time() -> None:
    once = Seen(truth(log_flush=50.0), {"Innodb_data_fsyncs": 1.0})
    twice = Seen(truth(cpu_user=20.2, log_flush=50.0), {"Innodb_data_fsyncs": 2.0})
    (fact,) = facts(once, twice)
    assert (fact.kind, fact.about) == ("storage", "fsyncs")
    assert fact.sentence == "Fsyncs per transaction: 1 in A and 2 in B"
    in_memory = replace(once, truth=truth()), replace(twice, truth=SLOWER)
    assert facts(*in_memory) == ()


def test_cpu_time_that_differs_for_certain_is_a_fact() -> None:
    slower = Seen(truth(cpu_user=40.0))
    fact, *_ = facts(Seen(truth()), slower)
    assert (fact.kind, fact.about) == ("cpu", "server CPU, foreground")
    assert fact.sentence.startswith("Threads of clients took 20")
    assert fact.sentence.endswith(" µs more of CPU a transaction in B, by more than chance")


def test_the_most_are_six() -> None:
    effective = {
        "log_bin": "ON", "general_log": "ON", "performance_schema": "ON", "userstat": "ON",
        "innodb_doublewrite": "ON", "innodb_flush_log_at_trx_commit": "1",
        "innodb_encrypt_log": "ON", "innodb_compression_default": "ON",
    }  # fmt: skip
    off = {name: "0" if name == "innodb_flush_log_at_trx_commit" else "OFF" for name in effective}
    waits = truth(cpu_user=20.2, data_write=40.0, log_flush=40.0)
    counted = WRITES | {"Innodb_log_writes": 1.0, "Innodb_dblwr_pages_written": 1.0}
    a = Seen(truth(), counted, effective=off)
    assert len(facts(a, Seen(waits, counted, effective=effective))) == MOST_FACTS


def test_facts_join_causes_that_name_no_setting() -> None:
    setting = LikelyCause(
        kind="option",
        about="binary log",
        sentence="",
        evidence=(),
        us=None,
        share=None,
        certainty=Certainty.FACT,
    )
    counter = replace(setting, kind="storage", about="fsyncs")
    cpu = LikelyCause(kind="cpu", about="CPU time", sentence="", evidence=(), us=1.0, share=0.5)
    tls = replace(cpu, kind="option", about="TLS")
    assert with_facts((), (setting, counter)) == (setting, counter)
    assert with_facts((cpu,), (setting, counter)) == (cpu, setting)
    assert with_facts((tls,), (setting, counter)) == (tls,)
