"""Test the effects suspected of different settings and builds: their words and their bounds."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from millrace.analysis.certainty import Certainty
from millrace.analysis.explain.causes.model import LikelyCause
from millrace.analysis.explain.causes.ranking import rank_causes
from millrace.analysis.explain.causes.settings import options
from tests.support.cause_cases import BUILD, Seen, case, named, suspects, truth
from tests.support.known import known
from tests.support.observed_trials import Truth

OPTIMISER = ("option", "optimiser")
COMPILER = ("build", "compiler")
READS = {"Handler_read_key": 1.0}
SORTING = ("option", "memory for sorting")
PLAN = {"id": 1, "select_type": "SIMPLE", "table": "t", "type": "range", "key": "k", "rows": 10}


def planned(**columns: Any) -> dict[str, Any]:
    return {"plans": {"range": {"sql": "SELECT 1", "rows": [{**PLAN, **columns}], "error": None}}}


def option(found: tuple[LikelyCause, ...], about: str) -> LikelyCause:
    (suspect,) = [each for each in found if (each.kind, each.about) == ("option", about)]
    return suspect


COMMITS = {"Innodb_log_writes": 1.0}
FLUSH = (
    Seen(truth(runnable=1000.0), COMMITS, effective={"innodb_flush_log_at_trx_commit": "0"}),
    Seen(truth(runnable=1300.0, log_flush=200.0, fsync=20.0), COMMITS,
         effective={"innodb_flush_log_at_trx_commit": "1"}),
)  # fmt: skip


def queueing(seed: int, spread: float) -> Callable[[Truth], Truth]:
    """Return trials whose queue for CPUs differs from one to the next."""
    source = np.random.default_rng(seed)
    return lambda result: replace(
        result, runnable=result.runnable * float(source.lognormal(0, spread))
    )


@pytest.mark.parametrize("turned", [False, True])
def test_a_bound_is_seldom_less_than_what_a_setting_made(turned: bool) -> None:
    """The setting made all of the difference; the queue's share of it is uncertain."""
    a, b = reversed(FLUSH) if turned else FLUSH
    made_us = abs(b.truth.latency - a.truth.latency)
    repeats, wrong, unsure = 100, 0, 0
    for seed in range(repeats):
        looked_at = case(a, b, seed=seed, noisy=queueing(seed, 0.2))
        (found,) = options(looked_at)
        assert min(found.us, looked_at.size_us) <= known(found.most_us) <= looked_at.size_us
        wrong += known(found.most_us) < min(made_us, looked_at.size_us)
        unsure += "runnable" not in looked_at.growth_us
    assert unsure > repeats / 2
    assert wrong <= 0.05 * repeats


def test_the_words_of_a_bound() -> None:
    whole = option(suspects(*FLUSH), "flush of the redo log at commit")
    assert re.search(r"\(up to the whole difference of 5\d\d µs\)$", whole.sentence)
    assert "may come of it" not in whole.sentence
    a, b = FLUSH
    slower = replace(b, truth=replace(b.truth, wire=b.truth.wire + 1000))
    half = option(suspects(a, slower), "flush of the redo log at commit")
    result = re.search(
        r"\(at most (\d+) µs a transaction, (\d+) % of the difference of 1,5\d\d µs\)$",
        half.sentence,
    )
    assert result is not None
    assert 500 < int(result[1]) < 600
    assert 33 < int(result[2]) < 40


def test_bound_is_explained_when_it_exceeds_the_growth() -> None:
    a, b = FLUSH
    b = replace(b, truth=truth(runnable=1200.0, log_flush=300.0))
    found = [case(a, b, seed=seed, noisy=queueing(seed, 0.1)) for seed in range(20)]
    unsure = [
        each for each in found if not each.why_not_different and "runnable" not in each.growth_us
    ]
    assert unsure
    for each in unsure:
        result = option(rank_causes(each), "flush of the redo log at commit").sentence
        assert re.search(r"\(with all that may come of it, (up to|at most) ", result)


def test_a_bound_counts_what_was_not_measured() -> None:
    """Threads of a pool, for example, count waits for locks as unaccounted."""
    a, b = FLUSH
    looked_at = case(
        a, replace(b, truth=replace(b.truth, waits={"log_flush": 200.0, "lock": 90.0}))
    )
    (before,) = options(looked_at)
    lines = tuple(line for line in looked_at.differences.lines if line.key != "lock")
    (lock,) = [line for line in looked_at.differences.lines if line.key == "lock"]
    unknown = replace(
        looked_at, differences=replace(looked_at.differences, lines=lines, unaccounted=lock)
    )
    (found,) = options(unknown)
    assert found.us < before.us
    assert found.most_us == pytest.approx(before.most_us, rel=0.02)


def test_a_bound_of_waits_counts_the_cpu_time_that_waiting_costs() -> None:
    """MariaDB, for example, flushes at each commit, and a third more is CPU time."""
    a = Seen(truth(), COMMITS, effective={"innodb_flush_log_at_trx_commit": "2"})
    b = Seen(replace(truth(cpu_user=30.0, log_flush=70.0), cpu_system=47.0), COMMITS,
             effective={"innodb_flush_log_at_trx_commit": "1"})  # fmt: skip
    looked_at = case(a, b)
    (found,) = options(looked_at)
    assert found.us < 0.65 * looked_at.size_us
    assert found.most_us == pytest.approx(looked_at.size_us, rel=0.01)


def test_a_bound_of_cpu_time_has_its_share_of_the_queue() -> None:
    a = Seen(truth(runnable=100.0), levels={"transport": "socket"})
    b = Seen(truth(runnable=200.0, cpu_user=50.0), levels={"transport": "tcp"})
    (found,) = options(case(a, b))
    assert found.most_us == pytest.approx(130, rel=0.05)
    a = replace(a, levels={}, effective={"userstat": "OFF"})
    b = replace(b, levels={}, effective={"userstat": "ON"})
    (found,) = options(case(a, b))  # what nobody measured has no bound below what grew
    assert found.most_us == pytest.approx(130, rel=0.05)
    assert found.certainty == Certainty.POSSIBLE


def test_a_bound_of_functions_counts_those_that_are_not_sure() -> None:
    a = Seen(truth(), effective={"performance_schema": "OFF"})
    b = Seen(truth(cpu_user=40.0), effective={"performance_schema": "ON"})
    groups = {"instrumentation": (1.0, 16.0)}
    (found,) = options(case(a, b, groups=groups))
    assert 15 < known(found.most_us) < 17


KERNEL = (Truth(), Truth(cpu_system=30.0))
USER = (Truth(), Truth(cpu_user=40.0))


@pytest.mark.parametrize(("truths", "suspected"), [(KERNEL, False), (USER, True)])
@pytest.mark.parametrize("cause", [OPTIMISER, COMPILER])
def test_what_runs_in_user_code_is_not_suspected_of_the_kernels_time(
    truths: tuple[Truth, Truth], suspected: bool, cause: tuple[str, str]
) -> None:
    a = Seen(truths[0], READS, effective={"optimizer_switch": "mrr=on,hash_join=off"})
    b = Seen(truths[1], READS, effective={"optimizer_switch": "mrr=off,hash_join=off"},
             build={**BUILD, "compiler": "GCC 4"})  # fmt: skip
    found = suspects(a, b)
    assert (cause in named(found)) == suspected
    assert all("in user code" in each.sentence for each in found if each.about == cause[1])


def test_other_versions_are_not_of_the_same_source() -> None:
    a = Seen(USER[0], build={**BUILD, "compiler": "GCC 4"})
    (compiler,) = [each for each in suspects(a, Seen(USER[1])) if each.about == "compiler"]
    assert "same source" not in compiler.sentence


SWITCHED = (
    Seen(truth(), READS, effective={"optimizer_search_depth": "1"}),
    Seen(truth(cpu_user=40.0), READS, effective={"optimizer_search_depth": "62"}),
)


def test_the_optimiser_is_not_suspected_of_what_reads_nothing() -> None:
    a, b = (replace(side, counted={"Handler_write": 1.0}) for side in SWITCHED)
    assert OPTIMISER not in named(suspects(a, b))


def test_the_optimiser_is_not_suspected_where_plans_are_the_same() -> None:
    a, b = SWITCHED
    assert OPTIMISER in named(suspects(a, b))
    a, b = replace(a, sections=planned()), replace(b, sections=planned())
    assert OPTIMISER not in named(suspects(a, b))
    assert OPTIMISER in named(suspects(a, b, groups={"optimiser": (5.0, 24.0)}))
    other = replace(b, sections=planned(key="PRIMARY"))
    assert OPTIMISER in named(suspects(a, other))


def switch_text(a: str, b: str) -> str:
    of_a, of_b = (
        Seen(truth(), READS, effective={"optimizer_switch": a}),
        Seen(truth(cpu_user=40.0), READS, effective={"optimizer_switch": b}),
    )
    found = option(suspects(of_a, of_b), "optimiser")
    assert found.settings == {"optimizer_switch": (a, b)}
    return found.sentence.partition(": plans")[0]


def test_only_differing_switches_are_shown() -> None:
    same = "index_merge=on,index_merge_union=on,index_merge_sort_union=on"
    assert (
        switch_text(f"{same},mrr=on", f"hash_join=on,{same},mrr=off")
        == "optimizer_switch is mrr=on, without hash_join in A and mrr=off, hash_join=on in B"
    )
    a = ",".join(f"s{n}=on" for n in range(9))
    b = ",".join(f"s{n}=off" for n in range(9))
    assert "is s0=on, s1=on, s2=on and 6 more in A and s0=off" in switch_text(a, b)


def test_long_values_are_cut_to_what_differs() -> None:
    same = "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
    a = Seen(truth(), levels={"tls": True}, effective={"tls_ciphersuites": same})
    b = Seen(
        truth(cpu_user=40.0), levels={"tls": True}, effective={"tls_ciphersuites": f"{same}:X"}
    )
    result = option(suspects(a, b), "TLS").sentence
    assert result.startswith("tls_ciphersuites is … in A and …:X in B")


SORTED = (
    Seen(truth(), effective={"sort_buffer_size": "262144"}),
    Seen(truth(cpu_user=40.0), effective={"sort_buffer_size": "2097152"}),
)


def test_memory_for_sorting_is_suspected_only_where_something_is_sorted() -> None:
    a, b = SORTED
    assert SORTING not in named(suspects(a, b))
    seldom = {"Sort_range": 0.004}  # a collector's statement
    assert SORTING not in named(suspects(replace(a, counted=seldom), replace(b, counted=seldom)))
    often = {"Sort_range": 1.0}
    assert SORTING in named(suspects(replace(a, counted=often), replace(b, counted=often)))
    by_plan = planned(Extra="Using where; Using filesort")
    assert SORTING in named(suspects(replace(a, sections=by_plan), replace(b, sections=by_plan)))


def test_writes_of_the_log_are_named_with_what_makes_them() -> None:
    a = Seen(truth(), COMMITS, effective={"innodb_flush_log_at_trx_commit": "0"})
    b = Seen(truth(log_write=60.0), COMMITS, effective={"innodb_flush_log_at_trx_commit": "2"})
    assert named(suspects(a, b)) == [
        ("option", "flush of the redo log at commit"), ("storage", "writes of the log"),
    ]  # fmt: skip


LOGGED = (
    Seen(truth(), {"Innodb_log_write_requests": 3.0}, effective={"version": "5.6.24"}),
    Seen(truth(lock=60.0), {"Innodb_log_write_requests": 3.0},
         effective={"innodb_log_writer_threads": "ON"}),
)  # fmt: skip
WRITERS = ("option", "writers of the redo log")


def test_threads_that_write_the_log_are_suspected_where_only_one_server_has_them() -> None:
    a, b = LOGGED
    dirty = "innodb_max_dirty_pages_pct"
    a = replace(a, effective={**a.effective, dirty: "75"})
    b = replace(b, effective={**b.effective, dirty: "90"})
    assert named(suspects(a, b))[0] == WRITERS


def test_threads_that_write_the_log_are_not_suspected_where_nothing_is_written() -> None:
    a, b = (replace(side, counted={"Innodb_log_write_requests": 0.002}) for side in LOGGED)
    assert WRITERS not in named(suspects(a, b))


def test_a_setting_of_contention_is_not_suspected_with_a_single_client() -> None:
    name = "innodb_spin_wait_delay"
    counted = {"Innodb_buffer_pool_read_requests": 3.0}
    a = Seen(truth(), counted, levels={"clients": 1}, effective={name: "6"})
    b = Seen(truth(cpu_user=40.0), counted, levels={"clients": 1}, effective={name: "4"})
    assert ("option", "spinning") not in named(suspects(a, b))
    a, b = (replace(each, levels={"clients": 2}) for each in (a, b))
    assert ("option", "spinning") in named(suspects(a, b))


def test_a_level_that_is_no_number_of_clients_is_one() -> None:
    assert case(Seen(levels={"clients": "many"}), Seen(levels={"clients": 4})).a.clients == 1


def test_what_may_cost_cpu_time_like_all_else_is_possible_and_not_likely() -> None:
    a, b = SORTED
    a, b = (replace(each, counted={"Sort_range": 1.0}) for each in (a, b))
    found = suspects(a, b)
    assert option(found, "memory for sorting").certainty == Certainty.POSSIBLE
    assert named(found)[0] == ("cpu", "CPU time")
    seen = suspects(a, b, groups={"execution": (5.0, 24.0)})
    assert option(seen, "memory for sorting").certainty == Certainty.LIKELY


def test_index_dives_are_likely_where_the_dearer_side_reads_more_pages() -> None:
    def dives(asked: float, keys: float) -> Seen:
        counts = {"Handler_read_key": keys, "Innodb_buffer_pool_read_requests": asked}
        limit = {"eq_range_index_dive_limit": "200" if asked > 300 else "10"}
        return Seen(truth(cpu_user=10.0 + asked / 10), counts, effective=limit)

    found = option(suspects(dives(300, 100), dives(500, 100)), "index dives")
    assert found.certainty == Certainty.LIKELY
    assert found.evidence == (
        "Innodb_buffer_pool_read_requests per transaction: 300 in A, 500 in B",
    )
    single = suspects(dives(300, 1), dives(500, 1))
    assert ("option", "index dives") not in named(single)
