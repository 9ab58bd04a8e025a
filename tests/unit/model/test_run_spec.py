"""Test the specification of a run as it is stored."""

from typing import Any

import pytest
from pydantic import ValidationError

from millrace.model.run_spec import Ablates, Aligned, Bisects, Calibrates, FactorSpec, RunSpec
from tests.support import stored_records
from tests.support.stored_records import CALIBRATES

SPEC: dict[str, Any] = {
    "workload": {
        "name": "load-data",
        "title": "Load a file",
        "version": 3,
        "phases": [
            {"name": "create", "kind": "sql", "sql": "CREATE TABLE t (a int)"},
            {"name": "load", "kind": "load_data"},
        ],
        "metrics": {
            **stored_records.SPEC["workload"]["metrics"],
            "p99": {
                "title": "99th percentile",
                "unit": "s",
                "direction": "lower",
                "percentile": 99,
                "of": "transaction",
                "time": "response",
            },
        },
        "roles": ["server"],
        "tables": {"t": {"name": "sbtest", "count": "{tables}", "rows": 1000}},
    },
    "factors": [
        {"name": "server", "levels": ["a", "b"], "aliases": {"b": "a"}},
        {"name": "tls", "levels": [False], "aliases": {}},
    ],
    "compare": {"factor": "server", "base": "a"},
    "configurations": {
        "default": {"title": "defaults"},
        "mine": {"title": "mine", "extends": "default", "options": {"skip_name_resolve": True}},
    },
    "parameters": {"rows": 20000, "rate": 12.5, "tables": 4},
    "source": "experiments/mine.toml",
    "collectors": ["threads", "disk"],
    "design": {"kind": "sequential", "blocks": 20, "max_time_s": 60.5},
    "extensions": [
        {"utc": "2026-05-01T12:05:00Z", "blocks": 3, "design": {"kind": "fixed", "blocks": 3}}
    ],
}
ABLATES = {
    "run": "first",
    "base": "t-a",
    "candidate": "t-b",
    "aligned": [{"name": "binary log", "treatment": "t-b"}],
    "left_out": ["compiler: of the build"],
}
BISECTS = {"members": ["a", "b"], "workload": "updates", "confidence": 0.95, "margin": 0.02}


def test_a_specification_is_read_by_attribute() -> None:
    spec = RunSpec.model_validate(SPEC)
    assert spec.factors == (
        FactorSpec(name="server", levels=("a", "b"), aliases={"b": "a"}),
        FactorSpec(name="tls", levels=(False,), aliases={}),
    )
    assert spec.levels["tls"][0] is False
    assert spec.workload.metrics["p99"].percentile == 99
    assert spec.workload.measured.timed == ("load",)
    assert [each.extends for each in spec.layers("mine")] == ["default", None]
    assert spec.design.max_time_s == 60.5


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        (
            "tested",
            ABLATES,
            Ablates(
                run="first",
                base="t-a",
                candidate="t-b",
                aligned=(Aligned(name="binary log", treatment="t-b"),),
                left_out=("compiler: of the build",),
            ),
        ),
        (
            "calibrates",
            CALIBRATES,
            Calibrates(digest="d", name="study", factor="server", base="a", blocks=10, margin=0.02),
        ),
        (
            "bisects",
            BISECTS,
            Bisects(members=("a", "b"), workload="updates", confidence=0.95, margin=0.02),
        ),
        ("confirms", "c0ffee", "c0ffee"),
    ],
)
def test_a_specification_is_written_as_it_was_read(key: str, value: object, read: object) -> None:
    written = {**SPEC, key: value}
    spec = RunSpec.model_validate(written)
    assert getattr(spec, key) == read
    assert spec.to_json() == written


@pytest.mark.parametrize(
    "changed",
    [
        {"observers": ["threads"]},
        {"design": {**SPEC["design"], "concurrent": True}},
        {"compare": {**SPEC["compare"], "candidate": "b"}},
        {"factors": [{**SPEC["factors"][0], "held": "a"}]},
        {"tested": {**ABLATES, "tests": "x"}},
    ],
)
def test_a_key_that_no_specification_has_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        RunSpec.model_validate({**SPEC, **changed})
