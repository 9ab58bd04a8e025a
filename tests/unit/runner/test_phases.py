"""A workload's phases: the spec that is sent, and what is made of the answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace import workloads
from millrace.errors import TrialFailed
from millrace.load.client import ClientUsage, DataChecksum, LoadResult, PhaseResult
from millrace.load.spec import Connection, GeneratedSource, LoadData, ServerFile, Statement
from millrace.runner import phases
from millrace.runner.phases import DataFile, Work

LOAD_DATA = workloads.checked(workloads.load("load-data"))
SOMEWHERE = Connection(user="root", password="secret", socket=Path("/somewhere"))
EXPECTED = DataChecksum(rows=1_000, bytes=79_000, checksum=4_242, data_version="nodes-1")


def work(**levels: Any) -> Work:
    return Work(
        LOAD_DATA,
        {"rows": 1_000, "data_seed": 7},
        {"engine": "InnoDB", "load_mode": "local", "server": "mysql-5.6.24", **levels},
    )


def phase(name: str, result: tuple[tuple[str | None, ...], ...] | None = None) -> PhaseResult:
    return PhaseResult(
        name=name,
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
) -> LoadResult:
    return LoadResult(
        load_generator="0.1.0",
        server_version="5.6.24",
        phases=(
            phase("create"),
            phase("load"),
            phase("finish"),
            phase("count", count),
            phase("verify", verify),
        ),
        statements=(),
        client=ClientUsage(0.5, 0.25, 10, 2, 1 << 20),
        bytes_sent=79_000,
        bytes_received=1_000,
    )


def test_the_spec_at_each_load_mode() -> None:
    local = phases.spec(work(), SOMEWHERE, None)
    assert [each.name for each in local.phases] == ["create", "load", "finish", "count", "verify"]
    load = local.phases[1]
    assert isinstance(load, LoadData)
    assert load.source == GeneratedSource("nodes", 1_000, 7)
    from_file = phases.spec(work(load_mode="server_file"), SOMEWHERE, DataFile(Path("/d/nodes")))
    load = from_file.phases[1]
    assert isinstance(load, LoadData)
    assert load.source == ServerFile(Path("/d/nodes"))


@pytest.mark.parametrize(
    ("engine", "finish"),
    [
        ("InnoDB", ("COMMIT",)),
        ("MyISAM", ("FLUSH TABLES",)),
        ("RocksDB", ("COMMIT", "FLUSH TABLES")),
    ],
)
def test_the_finish_makes_the_engine_durable(engine: str, finish: tuple[str, ...]) -> None:
    made = phases.spec(work(engine=engine), SOMEWHERE, None)
    create, _, last = made.phases[:3]
    assert isinstance(create, Statement)
    assert create.sql[0].endswith(f"ENGINE={engine}")
    assert isinstance(last, Statement)
    assert tuple(last.sql) == finish


def test_the_checksum_compares_text_as_bytes() -> None:
    assert phases.checksum_sql(LOAD_DATA) == (
        "SELECT count(*), sum(crc32(concat_ws('\\t', id, lat, lon, version, timestamp, changeset, "
        "uid, CAST(user AS BINARY)))) FROM nodes"
    )


def test_the_session_is_utc() -> None:
    assert phases.spec(work(), SOMEWHERE, None).session == ("SET time_zone = '+00:00'",)


def test_limits_grow_with_the_rows() -> None:
    small, large = work(), replace(work(), parameters={"rows": 46_741_126, "data_seed": 7})
    assert phases.limit_s(small) < phases.limit_s(large)
    made = phases.spec(large, SOMEWHERE, None)
    assert phases.limit_s(large) == pytest.approx(sum(each.limit_s for each in made.phases))


def test_a_table_with_what_was_made_is_verified() -> None:
    phases.verify(LOAD_DATA, answer(), EXPECTED)


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
def test_a_table_with_anything_else_fails_the_trial(wrong: LoadResult, step: str) -> None:
    with pytest.raises(TrialFailed) as failure:
        phases.verify(LOAD_DATA, wrong, EXPECTED)
    assert failure.value.step == step


def test_measurements_are_what_the_phases_yielded() -> None:
    found = {each.name: each.value for each in phases.measurements(LOAD_DATA, answer(), EXPECTED)}
    assert found["rows"] == 1_000
    assert found["load_duration_s"] == found["finish_duration_s"] == 2.0
    assert found["load_generator_wait_s"] == 0.25
    assert found["load_warnings"] == 3
    assert found["load_generator_user_s"] == 0.5
    assert "finish_warnings" not in found


def test_phases_are_steps_one_after_another() -> None:
    steps = phases.step_records(answer())
    assert [step.started_s for step in steps] == [0.0, 2.0, 4.0, 6.0, 8.0]
