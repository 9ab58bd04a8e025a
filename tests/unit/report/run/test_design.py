"""Test the report on a run's design, its end, and its A/A trials."""

import json
from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import ComparisonStatus
from millrace.levels import Level
from millrace.model.run_spec import Design
from millrace.report.calibration import head_line
from millrace.report.run.design import design_text, method
from millrace.report.run.formats import FORMATS, render
from millrace.report.run.json import ReportDocument
from tests.support.builders import Fails, noisy
from tests.support.sequential_runs import BASE, designed, run_of, with_aa_trials

SLOW, LIKE, BROKEN = "mysql-5.7.22", "mysql-8.0.12", "mysql-9.7.4"
DECIDED = run_of({BASE: noisy(4, 6), SLOW: noisy(8, 6, seed=2)})
UNDECIDED = run_of({BASE: noisy(4, 9), SLOW: noisy(8, 9, seed=2), LIKE: noisy(4.04, 9, seed=3)})


def test_design_has_the_blocks_of_a_decided_run() -> None:
    assert design_text(compare_run(DECIDED)) == "sequential, at most 20 blocks: decided after 6"


@pytest.mark.parametrize(
    ("design", "begins"),
    [
        (
            Design(kind="sequential", blocks=9),
            "sequential, at most 9 blocks: stopped there with 1 of 2 undecided",
        ),
        (
            Design(kind="sequential", blocks=20),
            "sequential, at most 20 blocks: 9 so far, 1 of 2 undecided",
        ),
        (
            Design(kind="sequential", blocks=20, max_time_s=60.0),
            (
                "sequential, at most 20 blocks and 60 s: stopped after 9 blocks, as the time would "
                "not do for another, with 1 of 2 undecided"
            ),
        ),
    ],
)
def test_design_has_reason_and_remaining_blocks_of_an_undecided_run(
    design: Design, begins: str
) -> None:
    text = design_text(compare_run(designed(UNDECIDED, design)))
    assert text.startswith(f"{begins}: about ")
    assert text.endswith(" more blocks")


def test_what_is_out_of_reach_has_no_number() -> None:
    noise = {BASE: noisy(4, 9, spread=0.5), LIKE: noisy(4, 9, spread=0.5, seed=3)}
    text = design_text(compare_run(run_of(noise, Design(kind="sequential", blocks=9))))
    assert text.endswith("1 of 1 undecided: more than 100 more blocks")


def test_design_separates_comparisons_within_and_out_of_reach() -> None:
    found = compare_run(UNDECIDED)
    one, other = found.status.comparisons
    near = replace(one, state="open", more_blocks=1)
    undecided = (
        near,
        replace(other, state="open", more_blocks=52),
        replace(near, more_blocks=None),
    )

    def rest(*comparisons: ComparisonStatus) -> str:
        status = replace(found.status, comparisons=comparisons)
        return design_text(replace(found, status=status)).partition(" undecided: ")[2]

    assert rest(*undecided) == "1 to 52 more blocks for 2 of them, more than 100 for the other"
    assert rest(near, undecided[2], undecided[2]) == (
        "1 more block for 1 of them, more than 100 for the other 2"
    )
    assert rest(*undecided[:2]) == "about 52 more blocks"


def test_too_few_blocks_foretell_nothing() -> None:
    text = design_text(compare_run(run_of({BASE: noisy(4, 2), LIKE: noisy(4, 2, seed=3)})))
    assert text == "sequential, at most 20 blocks: 2 so far, 1 of 1 undecided"


def test_what_cannot_be_decided_is_counted_apart() -> None:
    stored = run_of({BASE: noisy(4, 5), SLOW: noisy(8, 5, seed=2), BROKEN: [Fails()] * 5})
    assert design_text(compare_run(stored)) == (
        "sequential, at most 20 blocks: 1 decided, 1 failing after 5"
    )


def test_design_has_a_fixed_number_of_blocks() -> None:
    assert design_text(compare_run(designed(DECIDED, Design(kind="fixed", blocks=6)))) == "6 blocks"


@pytest.mark.parametrize(
    ("clients", "hint"),
    [
        ({}, "`millrace calibrate FILE` tells"),
        ({"clients": 1}, "`millrace calibrate FILE` tells"),
        ({"clients": 8}, "`millrace calibrate FILE --slowdown none` tells"),
    ],
)
def test_hint_of_a_run_in_slices_calibrates_slices(clients: dict[str, Level], hint: str) -> None:
    found = compare_run(designed(DECIDED, Design(kind="sequential", blocks=20, slices=True)))
    groups = tuple(
        replace(
            group,
            treatments=tuple(
                replace(each, resolved={**each.resolved, **clients}) for each in group.treatments
            ),
        )
        for group in found.groups
    )
    line = head_line(replace(found, groups=groups, calibrations=()))
    assert line is not None
    assert line.startswith(f"this host was not calibrated in slices; {hint}")
    assert "left out with it, at the step pair_failed" in " ".join(method(found))


def test_method_names_the_interval() -> None:
    assert "holds however often one has looked" in " ".join(method(compare_run(DECIDED)))
    fixed = " ".join(method(compare_run(designed(DECIDED, Design(kind="fixed", blocks=6)))))
    assert "Student’s t" in fixed
    assert "sequential" not in fixed.split("A trial is left out")[0]
    assert "whichever the treatment" in fixed


@pytest.mark.parametrize("output_format", FORMATS)
def test_every_format_takes_every_design(output_format: str) -> None:
    for stored in (DECIDED, UNDECIDED, with_aa_trials(UNDECIDED, {0: 1.01, 5: 0.0})):
        assert render(compare_run(stored), output_format)


def test_the_document_has_design_and_controls() -> None:
    stored = with_aa_trials(
        designed(UNDECIDED, Design(kind="sequential", blocks=9)), {0: 1.0, 5: 1.01}
    )
    document = ReportDocument.model_validate_json(render(compare_run(stored), "json"), strict=True)
    assert (document.design.kind, document.design.ended) == ("sequential", "blocks")
    assert document.design.intervals_hold_for == "any"
    assert [(s.state, s.after) for s in document.design.statuses] == [
        ("decided", 9), ("open", None)
    ]  # fmt: skip
    assert document.aa_trials is not None
    assert (document.aa_trials.n_pairs, document.aa_trials.excludes_1) == (2, False)
    assert [group.n_blocks for group in document.aa_trials.groups] == [2]
    without = json.loads(render(compare_run(DECIDED), "json"))
    assert without["aa_trials"] is None
