"""Test what the counted trials of a stored run say of two of its treatments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.analysis.counts.model import CountComparison
from millrace.analysis.counts.stored_counts import compare_stored
from millrace.analysis.explain.explanation import explain
from millrace.model.observations import Observations
from millrace.store.records import StoredRun
from tests.support.explained import first_blocks, study_run
from tests.unit.analysis.counts.counted import BASE, MORE, with_counts
from tests.unit.analysis.observations import A, B


def compared(stored: StoredRun, factor: str = "server", clients: int = 1) -> CountComparison | None:
    a, b = (
        next(
            each
            for each in stored.treatments
            if each.levels["server"] == server and each.levels["clients"] == clients
        )
        for server in (A, B)
    )
    return compare_stored(stored, factor, a, b)


def failed(stored: StoredRun, number: int) -> StoredRun:
    """Return the run whose last attempts failed."""
    kept, lost = stored.attempts[:-number], stored.attempts[-number:]
    reason = "valgrind is not installed"
    broken = (
        replace(each, outcome="failed", reason=reason, observations=Observations()) for each in lost
    )
    return replace(stored, attempts=(*kept, *broken))


def test_counts_of_a_run_are_compared_by_their_starts() -> None:
    found = compared(study_run(counted=True))
    assert found is not None
    assert found.verdict == "more"
    assert found.base.values == pytest.approx((1001, 1002, 1001), abs=1.0)
    assert [each.name for each in found.functions] == ["extra"]
    assert found.base.program is not None


def test_a_run_that_nobody_counted_has_no_comparison() -> None:
    assert compared(study_run()) is None
    (explanation,) = explain(study_run(), factor="server", base=A, candidate=B)
    assert explanation.instructions is None


def test_a_count_holds_for_any_number_of_clients() -> None:
    stored = study_run(counted=True, clients=(8, 1))
    assert compared(stored, clients=1) == compared(stored, clients=8)
    assert compared(stored, factor="clients") is None


def test_the_side_without_counts_says_why() -> None:
    stored = with_counts(study_run(), {A: BASE.starts})
    found = compared(stored)
    assert found is not None
    assert found.verdict == "refused"
    assert found.candidate.refusal == "no start of the server was counted"
    found = compared(failed(study_run(counted=True), 1))
    assert found is not None
    assert found.candidate.refusal == "valgrind is not installed"


def test_counts_are_no_measurements() -> None:
    """A trial in valgrind is slow: it must not enter a time, a verdict or a failure."""
    stored = study_run(counted=True)
    (with_them,) = explain(stored, factor="server", base=A, candidate=B)
    (without,) = explain(study_run(), factor="server", base=A, candidate=B)
    assert with_them.a == without.a
    assert with_them.b == without.b
    lost = failed(stored, len(MORE.starts))
    (explanation,) = explain(lost, factor="server", base=A, candidate=B)
    assert explanation.b.failed == 0
    assert explanation.missing == without.missing


def test_more_instructions_are_among_the_facts() -> None:
    (found,) = explain(study_run(counted=True), factor="server", base=A, candidate=B)
    (cause,) = (each for each in found.likely_causes if each.kind == "instructions")
    assert cause.certainty.is_fact
    assert cause.sentence.startswith("B executes 1.06 times the instructions per statement: 1,001")
    assert "extra, with all that it calls: 64.3 more" in cause.evidence


@pytest.mark.parametrize("blocks", [0, 2])
def test_counts_alone_are_explained(blocks: int) -> None:
    stored = study_run(counted=True)
    counts = {A: BASE.starts, B: MORE.starts}
    stored = with_counts(first_blocks(study_run(profiled=0), blocks), counts) if blocks else stored
    (found,) = explain(stored, factor="server", base=A, candidate=B)
    assert found.instructions is not None
