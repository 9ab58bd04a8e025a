"""Test that the output in the documents is the program's, for the same figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from millrace import workloads
from millrace.analysis.compare.bisection import Bisection, bisection
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import AaTrials, ApplicableCalibration, GroupAaTrials
from millrace.analysis.compare.paired import compare_counted
from millrace.analysis.counts.compare_counts import compare_counts
from millrace.analysis.history.overview import ChangeGroup
from millrace.analysis.steady.policy import unsteady_sides
from millrace.cli.progress import Forecast, block_end_text, review_text
from millrace.model.events import BlockEnded, InterimRatio, VisibleChanges
from millrace.model.instruction_counts import TreatmentStarts
from millrace.model.run_spec import Bisects
from millrace.model.servers import AttachedServer
from millrace.report.bisection import answer as bisection_answer
from millrace.report.calibration import head_line
from millrace.report.counts import sentence as counts_sentence
from millrace.report.external.paired import sentence as external_sentence
from millrace.report.history import group_text
from millrace.report.run.doubts import aa_text
from millrace.servers.attached import parse_dsn
from millrace.stats.bisection_model import Found, Measured, NoChange
from millrace.stats.ratio import RatioEstimate
from tests import examples
from tests.examples import Example
from tests.support.builders import study
from tests.support.counted_starts import start, treatment
from tests.support.history_points import change
from tests.unit.analysis.compare.test_bisection import bisected
from tests.unit.analysis.steady.test_policy import DIRTY, FALLS, trial
from tests.unit.cli.test_progress import closed, look
from tests.unit.report.test_history import shown

EXAMPLES = [each for each in examples.every() if each.language == "text"]
SEARCHED = ("mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.12", "mysql-8.0.33")

# Texts that no program prints, or none here.
NOT_PRINTED = {
    "ARCHITECTURE.md": "drawings",
    "CONTRIBUTING.md": "a command of another program",
    "SECURITY.md": "a drawing",
    "explain.md": "a formula",
    "servers.md": "shown after a download",
    "tutorial.md": "addresses, which a test of their own reads",
    "generators.md": "formulas",
}


def a_bisection(step: Found | NoChange) -> str:
    title = workloads.load("updates")["metrics"]["throughput"]["title"]
    found: Bisection = bisection(bisected([]))
    return bisection_answer(
        replace(
            found,
            spec=Bisects(members=SEARCHED, workload="updates", confidence=0.95, margin=0.02),
            metric=found.metric.replace(title=title),
            seen=(Measured(0, 1.0),) * 19,
            step=step,
        )
    )


def a_change() -> str:
    return a_bisection(Found(2, 2, 0.982, 0.787, 0.771, 0.803))


def no_change() -> str:
    return a_bisection(NoChange(0.97, 1.001, 0.99, 1.01))


def a_calibration() -> str:
    quoted = ApplicableCalibration(
        run="run", experiment="load-data", is_of_experiment=True,
        ended_utc="2026-01-02T10:00:00Z", age_s=3.2 * 86_400, verdicts=60, false=1, refused=0,
        low=0.00042, high=0.089, smallest=(0.041, 0.041), blocks=10, stale=(),
    )  # fmt: skip
    line = head_line(replace(compare_run(study()), calibrations=(quoted,)))
    assert line is not None
    return line


def a_count() -> str:
    sides = (counts_treatment("mysql-5.6.24", 40_803), counts_treatment("mysql-5.7.22", 45_940))
    (group,) = compare_counts(sides, "server", "mysql-5.6.24")
    ratio = RatioEstimate(1.1259, 1.1255, 1.1263, 2, 0.95, None)
    return counts_sentence(replace(group.comparisons[0], ratio=ratio))


def counts_treatment(server: str, instructions: float) -> TreatmentStarts:
    return treatment(server, [start(instructions, instructions)] * 2)


def counted_values() -> str:
    values = {"old": {"1": 40_803, "2": 40_810}, "new": {"1": 43_455, "2": 43_460}}
    (found,) = compare_counted(values, base="old", direction="lower", margin=0.002, alpha=0.05)
    return external_sentence(found, 0.002, "instructions")


def a_look() -> str:
    decided = InterimRatio(label="mysql-5.7.22", ratio=0.774, low=0.731, high=0.820)
    undecided = InterimRatio(label="mysql-8.0.33", ratio=0.962, low=0.921, high=1.005)
    found = look(3, closed("mysql-5.7.22", "regression"), n_open=1)
    ahead = VisibleChanges(8, 0.032, 0.032)
    review = review_text(replace(found, ratios=(undecided,), visible=ahead))
    of_fixed_run = block_end_text(
        BlockEnded(3, 8, (decided, undecided), replace(ahead, smallest=0.025))
    )
    return f"{review}; {Forecast(0.0, 720.0, 1860.0).left(0.0)} left\n{of_fixed_run}"


def the_base_against_itself() -> str:
    estimate = RatioEstimate(1.004, 0.981, 1.028, 4, 0.95, 0.01, "any", 0.6)
    return aa_text(AaTrials((GroupAaTrials("a", {}, "a", 4, 4, estimate),), estimate))


def a_group() -> str:
    (seen,) = shown(change(40, 0.96)).changes
    return group_text(ChangeGroup("mysql-8.0.33", (seen,) * 7, 12, -0.04, -0.19))


def an_unsteady_side() -> str:
    unsteady, steady = trial("unsteady", FALLS, DIRTY), trial("steady")
    candidate = [unsteady] * 7 + [steady] * 3
    names = ("mysql-5.6.24", "mysql-9.7.4")
    return f"inconclusive, {unsteady_sides([steady] * 10, candidate, names=names)}"


PRINTED: dict[str, tuple[Callable[[], str], ...]] = {
    "analyze.md": (counted_values,),
    "bisect.md": (a_change, no_change),
    "calibrate.md": (a_calibration,),
    "count.md": (a_count,),
    "design.md": (a_look, the_base_against_itself),
    "history.md": (a_group,),
    "steady-state.md": (an_unsteady_side,),
}


def test_every_text_is_printed_or_has_a_reason() -> None:
    texts: dict[str, list[Example]] = {}
    for example in EXAMPLES:
        texts.setdefault(example.page.name, []).append(example)
    assert set(texts) == {*PRINTED, *NOT_PRINTED}
    assert {page: len(texts[page]) for page in PRINTED} == {
        page: len(printing) for page, printing in PRINTED.items()
    }


@pytest.mark.parametrize("page", PRINTED)
def test_a_text_is_what_is_printed(page: str) -> None:
    shown_there = [each.text for each in EXAMPLES if each.page.name == page]
    for text, printing in zip(shown_there, PRINTED[page], strict=True):
        begun, left_out, _ = " ".join(text.split()).partition(" ...")
        output = " ".join(printing().split())
        assert output.startswith(begun) if left_out else output == begun


def test_addresses_are_read() -> None:
    (example,) = (each for each in EXAMPLES if each.page.name == "tutorial.md")
    for address in example.text.split():
        parse_dsn(AttachedServer("staging", "mysql", address))
