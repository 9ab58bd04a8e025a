"""Test the words for comparisons that are not beyond doubt, and the command that adds blocks."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.compare.stopping import time_with
from millrace.model.run_spec import BLOCKS_IN_TIME, Design
from millrace.report.run.formats import render
from millrace.report.run.sentences import answer, sentence
from millrace.report.run.undecided import next_step
from tests.support.builders import RunBuilder, noisy
from tests.support.known import known
from tests.support.reports import one_line
from tests.support.sequential_runs import designed, run_of

BASE, OTHER, THIRD = "mysql-5.6.24", "mysql-8.0.33", "mysql-9.7.4"
TIMES = (4.0, 4.1, 3.9)
SLOWER = (8.0, 6.0, 7.0)  # in every block, by 42 %
FIXED = Design(kind="fixed", blocks=3)
UNDECIDED = {BASE: noisy(4, 9), OTHER: noisy(4.2, 9, spread=0.06, seed=3)}


def analysis(*others: Sequence[float], design: Design = FIXED) -> RunAnalysis:
    times = {BASE: TIMES, **dict(zip((OTHER, THIRD), others, strict=False))}
    return compare_run(designed(RunBuilder(times).build(), design))


def open_run(design: Design) -> tuple[RunAnalysis, int]:
    """Return a run with an undecided comparison, and the blocks that would settle it."""
    found = compare_run(run_of(UNDECIDED, design))
    (comparison,) = found.comparisons()
    assert comparison.undecided
    return found, known(comparison.more_blocks)


def only_sentence(found: RunAnalysis, metric: str = "throughput") -> str:
    (comparison,) = (c for c in found.groups[0].comparisons if c.metric.name == metric)
    return sentence(comparison, found)


def test_sentence_has_both_numbers_of_blocks_when_every_block_agrees() -> None:
    found = analysis((8.0, 5.0, 5.5))
    assert only_sentence(found) == (
        "mysql-8.0.33 against mysql-5.6.24: slower in every block, by 33.8 %, not yet beyond doubt "
        "(p 0.11). Ratio 0.662, 95 % interval 0.352 to 1.246 over 3 blocks: inconclusive. If it is "
        "as large as it looks, 5 more blocks would settle it (`--blocks 8`); a difference of 2 % "
        "would take more than 100 blocks in all."
    )


def test_the_answer_withdraws_no_figure_that_it_led_with() -> None:
    assert answer(analysis((8.0, 5.0, 5.5))) == (
        "Compared with mysql-5.6.24, nothing is beyond doubt yet: mysql-8.0.33, slower in every "
        "block, by 33.8 % (p 0.11; 5 more blocks like these would settle it)."
    )


def test_no_p_value_of_chance_stands_next_to_the_blocks_that_would_settle_it() -> None:
    """A p-value for any number of looks is 1 after three blocks of even this difference."""
    found = analysis((8.0, 5.0, 5.5), design=Design(kind="sequential", blocks=40))
    (comparison,) = found.comparisons()
    assert known(comparison.estimate).p_value == 1
    assert answer(found).endswith(
        "slower in every block, by 33.8 % (within chance so far; 5 more blocks like these would "
        "settle it)."
    )
    assert "not yet beyond doubt (within chance so far)." in only_sentence(found)


def test_answer_has_no_p_value_inside_the_margin() -> None:
    found = analysis((4.1, 4.0, 4.0))
    text = answer(found)
    assert "no difference beyond 2 % so far, and none excluded: " in text
    assert text.endswith(" more blocks like these would settle it).")
    assert "(p " not in text


def test_what_is_certain_comes_first_in_the_answer() -> None:
    found = analysis((8.0, 5.0, 5.5), tuple(2 * time for time in TIMES))
    certain, doubtful = answer(found).split(" Not beyond doubt: ")
    assert certain == (
        "Compared with mysql-5.6.24, mysql-9.7.4 gives 50.0 % fewer rows/s (regression)."
    )
    assert doubtful.startswith("mysql-8.0.33, slower in every block, by 33.8 % (p 0.11 alone, ")
    assert " among 2 comparisons; " in doubtful


def test_blocks_that_disagree_are_counted() -> None:
    text = only_sentence(analysis((8.0, 2.0, 4.3)))
    assert "slower in 2 of 3 blocks, by " in text
    assert "more than 100 more blocks would be needed to settle it; a difference of 2 % " in text
    assert "`" not in text


def test_sentence_has_the_range_that_is_not_excluded() -> None:
    text = only_sentence(analysis((4.1, 4.0, 4.0)))
    assert "no difference beyond 2 % so far, and none excluded: from 7.7 % slower to " in text
    assert "If it is as small as it looks, " in text
    assert "a difference of 2 % would take about 19 blocks in all." in text


def test_other_metrics_are_named() -> None:
    text = only_sentence(analysis((8.0, 5.0, 5.5)), "time")
    assert ": time to load and finish longer in every block, by 51.0 %, not yet" in text


def test_rounds_are_called_rounds() -> None:
    found = analysis((8.0, 5.0, 5.5))
    groups = tuple(
        replace(group, treatments=tuple(replace(each, in_slices=True) for each in group.treatments))
        for group in found.groups
    )
    sliced = replace(found, groups=groups)
    text = only_sentence(sliced)
    assert "slower in every round, by " in text
    assert " over 3 rounds: " in text
    assert " more rounds would settle it (`--blocks " in text
    assert text.endswith("100 rounds in all.")
    assert next_step(sliced).startswith("5 more rounds would settle what is not beyond doubt")


def test_the_command_adds_the_blocks() -> None:
    assert next_step(analysis((8.0, 5.0, 5.5))) == (
        "5 more blocks would settle what is not beyond doubt, as they look now: "
        "`millrace run experiments/load-data.toml --scale demo --blocks 8`"
    )


def test_next_step_takes_the_nearest_and_names_the_farthest() -> None:
    found = analysis((8.0, 5.0, 5.5), (8.0, 4.3, 5.5))
    nearest, farthest = sorted(each.more_blocks or 0 for each in found.comparisons())
    assert nearest < farthest
    text = next_step(found)
    assert text.startswith(f"{nearest} more blocks would settle 1 of the 2 that are")
    assert f", and {farthest} would settle all of them, as they look now" in text
    assert text.endswith(f" --blocks {3 + nearest}`")


@pytest.mark.parametrize(
    ("design", "option"),
    [
        (Design(kind="sequential", blocks=40), ""),
        (Design(kind="sequential", blocks=9), "--max-blocks"),
    ],
)
def test_a_sequential_run_needs_another_limit_or_none(design: Design, option: str) -> None:
    found, more = open_run(design)
    assert next_step(found).endswith(f" {option} {9 + more}`" if option else "")
    assert (f"(`{option} {9 + more}`)" in only_sentence(found)) == bool(option)


def test_a_run_that_its_time_ended_needs_more_of_it() -> None:
    found, more = open_run(Design(kind="sequential", blocks=40, max_time_s=60.0))
    assert found.status.ending == "time"
    needed_s = time_with(found, found.status.needed, more)
    minutes = int(next_step(found).rsplit(" --max-time ")[1].removesuffix("min`"))
    assert needed_s <= 60 * minutes <= 1.1 * needed_s + 60


@pytest.mark.parametrize(
    ("design", "ending"),
    [
        (Design(kind="sequential", blocks=10, max_time_s=60.0), "time"),
        (Design(kind="sequential", blocks=9, max_time_s=90.0), "blocks"),
    ],
)
def test_both_limits_grow_where_one_alone_would_end_the_run_again(
    design: Design, ending: str
) -> None:
    found, more = open_run(design)
    assert found.status.ending == ending
    assert more > 1
    assert f" --max-blocks {9 + more} --max-time " in next_step(found)


@pytest.mark.parametrize(
    ("design", "option"),
    [
        (Design(kind="fixed", blocks=2), " --blocks 3`"),
        (Design(kind="sequential", blocks=2), " --max-blocks 3`"),
        (Design(kind="sequential", blocks=20), ""),
    ],
)
def test_without_three_blocks_the_step_is_to_have_them(design: Design, option: str) -> None:
    stored = RunBuilder({BASE: TIMES[:2], OTHER: SLOWER[:2], THIRD: SLOWER[:2]}).build()
    step = next_step(compare_run(designed(stored, design)))
    assert step.endswith(option)
    said = "2 comparisons have fewer than the 3 blocks that a verdict takes: `millrace run "
    assert step.startswith(said) == bool(option)


def test_decided_comparisons_need_no_step() -> None:
    assert next_step(analysis(tuple(2 * time for time in TIMES))) == ""


@pytest.mark.parametrize("output_format", ["terminal", "markdown", "html"])
def test_every_format_has_the_next_step(output_format: str) -> None:
    text = render(analysis((8.0, 5.0, 5.5)), output_format).replace("\u00a0", " ")
    assert "--blocks 8" in one_line(text)


def test_documents_have_the_numbers() -> None:
    document = json.loads(render(analysis((8.0, 5.0, 5.5)), "json"))
    comparison = document["comparisons"][0]
    assert (comparison["agreeing_blocks"], comparison["more_blocks"]) == (3, 5)
    assert document["next_step"].endswith(" --blocks 8`")
    rows = render(analysis((8.0, 5.0, 5.5)), "csv").splitlines()
    named = dict(zip(rows[0].split(","), rows[1].split(","), strict=False))
    assert math.isclose(float(named["ratio"]), comparison["ratio"])
    assert (named["agreeing_blocks"], named["more_blocks"]) == ("3", "5")


@pytest.mark.parametrize(
    "began", ["--max-blocks 9", "--blocks 9", "--max-time 1min", "--max-time=1min --max-blocks=9"]
)
def test_the_command_has_the_limits_of_now_and_not_of_the_beginning(began: str) -> None:
    def step(design: Design) -> str:
        stored = run_of(UNDECIDED, design)
        command = f"millrace run a.toml {began}"
        run = replace(stored.run, millrace_command=command)
        return next_step(compare_run(replace(stored, run=run)))

    in_time = Design(kind="sequential", blocks=BLOCKS_IN_TIME, max_time_s=60.0)
    assert re.search(r"`millrace run a.toml --max-time \d+min`", step(in_time))
    both = in_time.replace(blocks=9)
    assert re.search(r"`millrace run a.toml --max-blocks \d+ --max-time \d+min`", step(both))
    blocks = Design(kind="sequential", blocks=9)
    assert re.search(r"`millrace run a.toml --max-blocks \d+`", step(blocks))
