"""Test the cost of an operation, figure by figure, and its sources."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from millrace.analysis.explain.efficiency import EfficiencyRow, compare_efficiency
from millrace.analysis.explain.observations import ObservedTrial
from tests.support.known import known
from tests.support.observed_trials import Scene, Truth, attempt, histogram, seen

TRUTH = Truth()
SCENE = Scene()
OPERATIONS = SCENE.operations(TRUTH)


def trial(block: int = 0, truth: Truth = TRUTH, **sections: Any) -> ObservedTrial:
    return SCENE.trial(truth, block, {**SCENE.document(truth), **sections})


def status(**per_operation: float) -> dict[str, Any]:
    deltas = {name: value * OPERATIONS for name, value in per_operation.items()}
    return {"deltas": deltas, "gauges": {}, "metrics": {}}


def disk(**per_operation: float | None) -> dict[str, Any]:
    usual: dict[str, float | None] = dict.fromkeys(
        ("reads", "writes", "read_bytes", "write_bytes", "read_s", "write_s", "busy_s"), 0.0
    )
    result = {n: None if v is None else v * OPERATIONS for n, v in per_operation.items()}
    return {"device": "vda", **usual, "flushes": None, "flush_s": None, **result}


def table(a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]) -> Mapping[str, EfficiencyRow]:
    return {row.key: row for row in compare_efficiency(a, b)}


def means(row: EfficiencyRow) -> tuple[Any, Any]:
    a, b = (side and side.mean for side in (row.a, row.b))
    return a, b


def test_every_figure_of_an_operation() -> None:
    sections: dict[str, Any] = {
        "status": status(
            Innodb_data_fsyncs=1.02, Innodb_os_log_fsyncs=1.0, Innodb_os_log_written=1024,
            Innodb_lsn_current=300, Handler_read_key=1, Handler_read_next=9, Questions=1,
            Innodb_buffer_pool_reads=0.25, binary_log_bytes=90,
        ),
        "disk": disk(reads=0.5, read_bytes=8192, write_bytes=2048, flushes=1.5),
    }  # fmt: skip
    rows = table([trial(**sections)], [trial(**sections)])
    assert {key: row.a.mean for key, row in rows.items() if row.a is not None} == {
        key: pytest.approx(value)
        for key, value in {
            "cpu_foreground": 30, "cpu_background": 4, "cpu_server": 34, "cpu_client": 9,
            "voluntary_switches": 1, "involuntary_switches": 0, "reads": 0.5, "read_kb": 8,
            "write_kb": 2, "fsyncs": 1.02, "flushes": 1.5, "redo_bytes": 300, "rows_examined": 10,
            "pool_misses": 0, "binary_log_bytes": 90,
        }.items()
    }  # fmt: skip
    assert rows["pool_misses"].source == "the storage engine, between the marks"
    assert rows["rows_examined"].source == "rows fetched from the engine"


def test_both_sides_have_the_same_source() -> None:
    """One side has a log sequence number, the other only counts its writes."""
    a = [trial(block, status=status(Innodb_os_log_written=1024)) for block in range(3)]
    b = [
        trial(block, status=status(Innodb_os_log_written=300, Innodb_lsn_current=300))
        for block in range(3)
    ]
    row = table(a, b)["redo_bytes"]
    assert row.source == "blocks written to the log"
    assert means(row) == (pytest.approx(1024), pytest.approx(300))
    assert known(row.relative).ratio == pytest.approx(300 / 1024)
    assert table(b, b)["redo_bytes"].source == "log sequence number"


def test_sources_that_differ_are_not_compared() -> None:
    a = [trial(disk=disk(read_bytes=1024))]
    b_document = {**SCENE.document(TRUTH), "threads": {"process": None, "threads": []}}
    b = [SCENE.trial(TRUTH, 0, b_document)]
    row = table(a, b)["read_kb"]
    assert (row.source, row.difference, row.relative) == ("the device", None, None)
    assert means(row) == (pytest.approx(1), None)


def test_rows_examined_are_the_digests_where_both_have_them() -> None:
    digests = [{"text": "SELECT", "count": 1, "wait_s": 1.0, "rows_examined": 1000 * OPERATIONS}]
    with_digests = trial(digests=digests, status=status(Handler_read_next=999))
    without = trial(status=status(Handler_read_next=999))
    assert table([with_digests], [with_digests])["rows_examined"].source == "statement digests"
    row = table([with_digests], [without])["rows_examined"]
    assert (row.source, means(row)) == ("rows fetched from the engine", (pytest.approx(999),) * 2)


def test_a_counter_that_did_not_move_is_zero_and_has_no_ratio() -> None:
    rows = table([trial(status=status(Questions=1))], [trial(status=status(Questions=1))])
    assert means(rows["fsyncs"]) == (0, 0)
    assert rows["fsyncs"].relative is None
    assert rows["fsyncs"].difference is not None


def test_fsyncs_are_the_devices_without_the_servers_counters() -> None:
    result = trial(disk=disk(flushes=1.5))
    row = table([result], [result])["fsyncs"]
    assert row.source == "flushes of the device"
    assert means(row) == pytest.approx((1.5, 1.5))


def test_figures_are_left_out_when_nobody_measured_them() -> None:
    rows = table([trial()], [trial()])
    assert "fsyncs" not in rows
    assert "reads" not in rows
    assert "cpu_server" in rows


def test_server_cpu_is_the_runners_without_observers() -> None:
    values = {"transactions": 1000.0, "measure_duration_s": 1.0, "mean_gap_s": 0.0}
    values |= {"server_user_s": 0.03, "server_system_s": 0.01, "buffer_pool_reads": 500.0}
    values |= {"buffer_pool_read_requests": 7000.0}
    made = attempt(values, {}, (histogram("transaction", "x", 1000, 1000.0),))
    rows = table(*([[ObservedTrial("t", 0, made, seen(made))]] * 2))
    assert means(rows["cpu_server"]) == (pytest.approx(40),) * 2
    assert means(rows["pool_misses"]) == (0.5, 0.5)
    assert means(rows["pool_requests"]) == (7.0, 7.0)
    assert set(rows) == {"cpu_server", "pool_requests", "pool_misses"}


def test_figure_is_none_when_one_trial_has_none() -> None:
    rows = table([trial(0, disk=disk(reads=1.0)), trial(1)], [trial(0, disk=disk(reads=1.0))])
    assert means(rows["reads"]) == (None, pytest.approx(1))


def test_figures_of_equal_servers_rarely_differ() -> None:
    source = np.random.default_rng(20_261_129)
    repeats, marked = 150, 0

    def side() -> list[ObservedTrial]:
        def noise() -> float:
            return float(source.lognormal(0, 0.02))

        return [
            trial(
                block,
                TRUTH.times(noise()),
                status=status(Innodb_data_fsyncs=noise(), Innodb_os_log_written=512 * noise()),
                disk=disk(reads=noise(), read_bytes=noise(), write_bytes=noise()),
            )
            for block in range(4)
        ]

    for _ in range(repeats):
        marked += any(row.significant for row in compare_efficiency(side(), side()))
    assert marked / repeats <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / repeats)


def test_a_figure_that_differs_is_marked() -> None:
    a = [trial(block, status=status(Innodb_data_fsyncs=1 + block / 1000)) for block in range(5)]
    b = [trial(block, status=status(Innodb_data_fsyncs=2 + block / 900)) for block in range(5)]
    rows = table(a, b)
    assert rows["fsyncs"].significant
    assert not rows["cpu_server"].significant


def test_all_of_a_row_is_of_the_blocks_that_both_have() -> None:
    a = [trial(block, status=status(Innodb_data_fsyncs=1 + block)) for block in range(4)]
    b = [trial(block, status=status(Innodb_data_fsyncs=3 + block)) for block in (1, 2)]
    row = table(a, b)["fsyncs"]
    assert means(row) == (pytest.approx(2.5), pytest.approx(4.5))
    assert known(row.difference).mean == pytest.approx(2)
    assert known(row.relative).ratio == pytest.approx(math.sqrt(4 / 2 * 5 / 3))


def test_a_ratio_its_interval_and_the_verdict_are_of_one_estimator() -> None:
    """One block is far slower on both sides: the ratio is the same in each."""
    slow = (1.0, 1.1, 40.0, 0.9)
    a = [trial(n, status=status(Innodb_data_fsyncs=each)) for n, each in enumerate(slow)]
    b = [
        trial(n, status=status(Innodb_data_fsyncs=each * (2 + n / 100)))
        for n, each in enumerate(slow)
    ]
    row = table(a, b)["fsyncs"]
    assert known(known(row.relative).low) > 1.9
    assert row.significant
    assert known(known(row.difference).low) < 0


def test_the_cpu_of_millraces_own_sessions_is_a_row_of_its_own() -> None:
    truth = Truth(background={"log": 3.0, "observer": 2.0})
    rows = table([trial(0, truth)], [trial(0, truth)])
    assert means(rows["cpu_background"]) == (pytest.approx(3),) * 2
    assert means(rows["cpu_observers"]) == (pytest.approx(2),) * 2


def test_background_cpu_is_unknown_when_one_thread_is() -> None:
    document = SCENE.document(TRUTH)
    document["threads"]["threads"][-1]["cpu_s"] = None
    assert "cpu_background" not in table([SCENE.trial(TRUTH, 0, document)], [])
