"""Test explanations of runs in which no block has a finished trial of both sides."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.explain.explanation import Explanation, explain
from millrace.model.observations import Observations
from millrace.report.explanation.html import as_html
from millrace.report.explanation.json import as_json
from millrace.report.explanation.sentences import answer
from millrace.report.run import html
from millrace.store.records import StoredAttempt, StoredRun
from tests.support.observed_trials import A, B
from tests.unit.report.explanation.explained import explained_text, study_run

GOES_ON = "; `millrace run` with the same file goes on."


def changed(change: Callable[[str, int, StoredAttempt], StoredAttempt | None]) -> StoredRun:
    """Return the study with ``change`` applied to each attempt.

    ``change`` takes server, block and attempt, and returns None for an attempt not made yet.
    """
    stored = study_run()
    servers = {each.id: str(each.levels["server"]) for each in stored.treatments}
    of_trial = {each.id: (servers[each.treatment_id], each.block) for each in stored.trials}
    attempts = (change(*of_trial[each.trial_id], each) for each in stored.attempts)
    return replace(stored, attempts=tuple(each for each in attempts if each is not None))


def explained(stored: StoredRun) -> Explanation:
    (found,) = explain(stored, factor="server", base=A, candidate=B)
    return found


def failed(attempt: StoredAttempt) -> StoredAttempt:
    return replace(
        attempt,
        outcome="failed",
        failed_step="start",
        reason="unknown option\nand more",
        measurements=(),
        histograms=(),
        observations=Observations(),
    )


def test_a_difference_whose_parts_nobody_measured_says_so(study: Explanation) -> None:
    assert study.differences is not None
    unknown = replace(study, differences=replace(study.differences, lines=()))
    assert "longer than" in answer(unknown)[0]
    assert answer(unknown)[0].endswith("; the parts of its time were not measured.")


def only_base() -> StoredRun:
    return changed(lambda server, _block, each: each if server == A else None)


def failing_candidate() -> StoredRun:
    return changed(lambda server, _block, each: each if server == A else failed(each))


def test_blocks_of_each_side_are_named_where_none_has_both() -> None:
    here = {A: (0, 1), B: (2,)}
    apart = changed(lambda server, block, each: each if block in here[server] else None)
    (sentence,) = answer(explained(apart))
    assert f"({A}: blocks 1, 2; {B}: block 3)" in sentence
    assert sentence.endswith(GOES_ON)


def test_nothing_is_finished_yet() -> None:
    (sentence,) = answer(explained(changed(lambda _server, _block, _each: None)))
    assert f"({A}: no block; {B}: no block)" in sentence
    assert sentence.endswith(GOES_ON)


def test_a_side_that_failed_is_not_to_be_had_by_going_on() -> None:
    (sentence,) = answer(explained(failing_candidate()))
    trials = sum(each.outcome == "failed" for each in failing_candidate().attempts)
    assert f"{B}: no block, {trials} trials failed, the first at step start: unknown option)" in (
        sentence
    )
    assert "with the same file and `--retry-failed`" in sentence
    assert "goes on" not in sentence


def test_trials_that_wait_come_before_those_that_failed() -> None:
    partly = changed(
        lambda server, block, each: each if server == A else failed(each) if block < 2 else None
    )
    (sentence,) = answer(explained(partly))
    assert "trials failed, the first at step start" in sentence
    assert sentence.endswith(GOES_ON)


@pytest.mark.parametrize("stored", [only_base(), failing_candidate()], ids=["open", "failed"])
def test_every_format_says_so_and_has_no_table_of_one_side(stored: StoredRun) -> None:
    found = explained(stored)
    (said,) = answer(found)
    text, page = explained_text([found]), as_html([found], found.run)
    assert said.replace("`", "") in " ".join(text.replace("`", "").split())
    assert "Not compared" in page
    for shown in (text, page):
        assert "Largest waits" not in shown
        assert "What one" not in shown
    assert "<table" not in page
    document = json.loads(as_json([found], found.run))
    assert document["explanations"][0]["answer"] == [said]
    report = html.as_html(compare_run(stored), [found])
    assert "Not compared: no block has a finished trial of both" in report.replace("\u00a0", " ")
