"""Test the conversion of the load generator's answer to measurements."""

from dataclasses import replace
from typing import Any

import pytest

from millrace import workloads
from millrace.errors import TrialFailed
from millrace.loadgen import events
from millrace.loadgen.datasets import DataChecksum
from millrace.trial import measurements
from millrace.workloads.statement_effects import Rows
from tests.support.listed_measurements import listed

LOAD_DATA = workloads.parse_workload(workloads.load("load-data"))
EXPECTED = DataChecksum(rows=1_000, bytes=79_000, checksum=4_242, data_version="nodes-1")


def usage(user_s: float, system_s: float) -> events.ClientUsage:
    return events.ClientUsage(
        user_s=user_s, system_s=system_s, voluntary_switches=11, involuntary_switches=12
    )


def phase(
    name: str, result: tuple[tuple[str | None, ...], ...] | None = None
) -> events.PhaseResult:
    return events.PhaseResult(
        name=name,
        kind="load_data" if name == "load" else "statement",
        duration_s=2.0,
        affected_rows=1_000,
        warnings=3,
        rows_sent=1_000,
        bytes_sent=79_000,
        generator_wait_s=0.25 if name == "load" else None,
        result=result,
    )


def answer(
    count: tuple[tuple[str | None, ...], ...] | None = (("1000",),),
    verify: tuple[tuple[str | None, ...], ...] | None = (("1000", "4242"),),
) -> events.LoadResult:
    return events.LoadResult(
        server_version="5.6.24",
        phases=(
            phase("create"),
            phase("load"),
            phase("finish"),
            phase("count", count),
            phase("verify", verify),
        ),
        client=usage(0.5, 0.25),
    )


def test_a_table_with_what_was_made_is_verified() -> None:
    measurements.verify(LOAD_DATA, answer(), EXPECTED)


@pytest.mark.parametrize(
    ("wrong", "step"),
    [
        (answer(count=(("999",),)), "count"),
        (answer(count=None), "count"),
        (answer(count=()), "count"),
        (answer(verify=(("1000", "4243"),)), "verify"),
        (answer(verify=(("1001", "4242"),)), "verify"),
        (answer(verify=(("1000", None),)), "verify"),
    ],
)
def test_a_table_with_anything_else_fails_the_trial(wrong: events.LoadResult, step: str) -> None:
    with pytest.raises(TrialFailed) as failure:
        measurements.verify(LOAD_DATA, wrong, EXPECTED)
    assert failure.value.step == step


def test_measurements_are_what_the_phases_yielded() -> None:
    found = {
        each.name: each.value
        for each in (
            *measurements.data_measurements(EXPECTED),
            *measurements.measurements(answer()),
        )
    }
    assert found["rows"] == 1_000
    assert found["load_duration_s"] == found["finish_duration_s"] == 2.0
    assert found["load_row_wait_s"] == 0.25
    assert found["load_warnings"] == 3
    assert found["load_generator_user_s"] == 0.5
    assert "finish_warnings" not in found
    assert all(listed(name) is not None for name in found)


def test_phases_are_steps_one_after_another() -> None:
    steps = measurements.step_records(answer())
    assert [step.started_s for step in steps] == [0.0, 2.0, 4.0, 6.0, 8.0]


def histogram(count: int) -> events.HistogramResult:
    return events.HistogramResult(encoded="HIST", count=count, sum_s=0.5, min_s=0.1, max_s=0.2)


def record(name: str, count: int, **changes: Any) -> events.Record:
    made = events.Record(
        name=name, count=count, errors={}, retries=0, rows=3 * count, affected_rows=count,
        bytes_sent=10 * count, bytes_received=20 * count, service=histogram(count), response=None,
    )  # fmt: skip
    return made.replace(**changes)


def driven(**changes: Any) -> events.LoadResult:
    phase = events.DriveResult(
        name="measure",
        primary=True,
        duration_s=10.0,
        warmup_s=5.0,
        connect_s=0.25,
        partial=False,
        partial_reason=None,
        transactions=(
            record("pair", 90, errors={"1213": 2, "1205": 1}, retries=4, response=histogram(90)),
            record("one", 10),
        ),
        statements=(record("select", 180), record("update", 10)),
        test="pair",
        protocol="text",
        clients=8,
        threads=1,
        busy_poll=False,
        cpus=None,
        pacing=events.Pacing(kind="open", scheduled=120, late=7, skipped=1),
        mean_gap_s=None,
        client=usage(1.5, 2.5),
    )
    return replace(answer(), phases=(phase.replace(**changes),))


def measured(result: events.LoadResult) -> dict[str, float]:
    return {each.name: each.value for each in measurements.measurements(result)}


@pytest.mark.parametrize("steady", [True, False])
def test_steady_warmup_is_recorded(steady: bool) -> None:
    found = measured(driven(warmup_steady=steady, warmup_s=8.0))
    assert (found["measure_warmup_s"], found["warmup_steady"]) == (8.0, int(steady))


def test_what_clients_did() -> None:
    assert measured(driven()) == {
        "measure_duration_s": 10.0,
        "measure_warmup_s": 5.0,
        "measure_connect_s": 0.25,
        "transactions": 100,
        "statements": 190,
        "rows_read": 570,
        "rows_affected": 190,
        "errors": 3,
        "errors_1205": 1,
        "errors_1213": 2,
        "retries": 4,
        "bytes_sent": 1_900,
        "bytes_received": 3_800,
        "scheduled": 120,
        "late": 7,
        "skipped": 1,
        "load_generator_user_s": 1.5,
        "load_generator_system_s": 2.5,
        "load_generator_voluntary_switches": 11,
        "load_generator_involuntary_switches": 12,
    }
    [step] = measurements.step_records(driven())
    assert (step.name, step.duration_s) == ("measure", 15.25)


def test_a_closed_loop_has_a_gap_and_no_schedule() -> None:
    found = measured(driven(pacing=events.Pacing(kind="closed"), mean_gap_s=0.001))
    assert found["mean_gap_s"] == 0.001
    assert not {"scheduled", "late", "skipped"} & found.keys()


def background(done: int, *, clients: int = 1) -> events.BackgroundResult:
    pacing = events.Pacing(kind="open", rate=20.0, arrivals="constant", scheduled=200, late=3)
    return events.BackgroundResult(
        test="inserts", clients=clients, pacing=pacing, transactions=(record("inserts", done),),
        statements=(record("insert", done),), rollbacks=0, unanswered=0, error_messages={},
    )  # fmt: skip


def test_background_clients_have_figures_of_their_own() -> None:
    with_others = measured(driven(background_clients=(background(200),)))
    assert {name: with_others.pop(name) for name in list(with_others) if "background" in name} == {
        "inserts_background_done": 200,
        "inserts_background_scheduled": 200,
        "inserts_background_late": 3,
        "inserts_background_longest_s": histogram(200).max_s,
    }
    assert with_others == measured(driven())
    result = driven(background_clients=(background(200),))
    theirs = [each for each in measurements.histograms(result) if each.of == "background"]
    assert [(each.phase, each.name, each.count) for each in theirs] == [("measure", "inserts", 200)]
    flat_out = background(200).replace(pacing=events.Pacing(kind="closed"))
    assert "inserts_background_scheduled" not in measured(driven(background_clients=(flat_out,)))
    measurements.refuse_missed_rates(driven(background_clients=(flat_out,)))


def test_clients_whose_transactions_all_fail_age_nothing() -> None:
    measurements.refuse_failed(driven())
    failed = record("point", 0).replace(errors={"1061": 2})
    with pytest.raises(TrialFailed, match=r"all transactions of .* ended in an error \(1061\)"):
        measurements.refuse_failed(driven(transactions=(failed,)))


def test_a_missed_rate_of_background_clients_fails_the_trial() -> None:
    measurements.refuse_missed_rates(
        driven(background_clients=(background(197), background(196, clients=2)))
    )
    message = r"inserts missed their rate: 150 of 200 .*75%"
    with pytest.raises(TrialFailed, match=message) as failed:
        measurements.refuse_missed_rates(driven(background_clients=(background(150),)))
    assert failed.value.step == measurements.KEEP_RATE


def test_maintenance_has_its_time_and_the_clients_their_parts() -> None:
    parts = tuple(
        events.PartRecord(**{**dict(record(name, count)), "name": name, "duration_s": 2.0})
        for name, count in (("before", 60), ("during", 10), ("after", 30))
    )
    maintenance = events.MaintenanceResult(
        from_s=7.0, until_s=9.0, statements_s=(0.5, 1.5), parts=parts
    )
    found = measured(driven(maintenance=maintenance))
    assert (found["maintenance_s"], found["maintenance_longest_s"]) == (2.0, 1.5)
    assert found["maintenance_statements"] == 2
    assert (found["during_transactions"], found["during_s"]) == (10, 2.0)
    kept = measurements.histograms(driven(maintenance=maintenance))[-3:]
    assert [(each.of, each.kind, each.count) for each in kept] == [
        ("before", "service", 60),
        ("during", "service", 10),
        ("after", "service", 30),
    ]


def test_a_partial_result_is_marked() -> None:
    assert measured(driven(partial=True, partial_reason="lost"))["partial"] == 1


def test_every_latency_is_kept() -> None:
    kept = [
        (each.of, each.name, each.kind, each.count) for each in measurements.histograms(driven())
    ]
    assert kept == [
        ("transaction", "pair", "service", 90),
        ("transaction", "pair", "response", 90),
        ("transaction", "one", "service", 10),
        ("statement", "select", "service", 180),
        ("statement", "update", "service", 10),
    ]
    assert measurements.histograms(answer()) == ()


def test_loaded_tables_are_rows_and_bytes() -> None:
    tables = (events.LoadedTable(rows=500, bytes=9_000),) * 2
    loaded = events.TablesResult(
        name="load", kind="load_tables", duration_s=3.0, tables=tables, method="local"
    )
    found = measured(replace(answer(), phases=(loaded,)))
    assert (found["rows"], found["data_bytes"], found["load_duration_s"]) == (1_000, 18_000, 3.0)


@pytest.mark.parametrize(("did", "field"), [("read", "rows"), ("changed", "affected_rows")])
def test_statements_that_surely_find_rows_and_found_none_fail_the_trial(
    did: Rows, field: str
) -> None:
    without = driven(statements=(record("other", 180, rows=0), record("mine", 180, **{field: 0})))
    measurements.refuse_no_rows({}, without)
    measurements.refuse_no_rows({"mine": did}, driven(statements=(record("mine", 180),)))
    few = driven(statements=(record("mine", 19, **{field: 0}),))
    measurements.refuse_no_rows({"mine": did}, few)
    with pytest.raises(TrialFailed, match=f"mine {did} no row in 180 statements") as failure:
        measurements.refuse_no_rows({"mine": did}, without)
    assert failure.value.step == measurements.VERIFY_ROWS


def test_a_trial_without_a_transaction_is_refused() -> None:
    measurements.refuse_idle(driven())
    none = driven().drives[0].transactions[0].replace(count=0, errors={})
    closed = events.Pacing(kind="closed")
    measurements.refuse_idle(driven(transactions=(none.replace(errors={"1213": 5}),)))
    with pytest.raises(TrialFailed, match=r"no transaction of .* ended in the measured part$"):
        measurements.refuse_idle(driven(transactions=(none,), pacing=closed))
    skipped = events.Pacing(kind="open", rate=10.0, scheduled=1_200, skipped=1_200)
    measurements.refuse_idle(driven(transactions=(none,), pacing=skipped))
