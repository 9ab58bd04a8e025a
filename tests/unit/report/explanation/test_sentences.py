"""Test the sentences of explanations, also of unfinished runs."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.explain.explanation import Explanation, SideExplanation, explain, is_observed
from millrace.model.observations import Observations
from millrace.report.explanation.caveats import ONE_BLOCK
from millrace.report.explanation.html import as_html
from millrace.report.explanation.json import as_json
from millrace.report.explanation.sentences import (
    answer,
    breakdown_notes,
    command,
    coverage_text,
    headings,
    missing_rows,
)
from millrace.report.explanation.tables import breakdown_table
from millrace.report.run import html
from millrace.store.records import StoredAttempt, StoredRun
from tests.support.explained import (
    explained_page,
    explained_text,
    first_blocks,
    of_levels,
    study_run,
    unobserved,
    unprofiled,
)
from tests.support.known import known
from tests.support.observed_trials import A, B
from tests.support.reports import Page, one_line, page_text


def test_the_answer_adds_up(study: Explanation) -> None:
    """The parts and the remainder in a sentence sum to the difference that it states."""
    cpu, _functions, latency = answer(study)
    for sentence in (cpu, latency):
        whole = float(re.findall(r"([\d.]+) µs (?:more|longer)", sentence)[0])
        parts = re.findall(r"([+−])([\d.]+)", sentence)
        total = sum(float(size) * (1 if sign == "+" else -1) for sign, size in parts)
        # Each figure is rounded to a tenth.
        assert total == pytest.approx(whole, abs=0.06 * len(parts))


def test_waiting_comes_first_where_it_is_what_differs(study: Explanation) -> None:
    lines = tuple(
        replace(line, difference=replace(line.difference, mean=0.0))
        if line.key in ("cpu_user", "cpu_system")
        else line
        for line in known(study.differences).lines
    )
    waiting = replace(study, differences=replace(known(study.differences), lines=lines))
    assert answer(waiting)[0].startswith("A transaction takes ")


def test_what_is_not_sure_is_not_called_more() -> None:
    (found,) = explain(study_run(profiled=0), factor="server", base=A, candidate=B)
    wide = replace(known(found.differences).latency, mean=14.0, low=-3.0, high=30.0)
    unsure = replace(found, differences=replace(known(found.differences), latency=wide))
    said = next(text for text in answer(unsure) if "a transaction took" in text)
    assert said.startswith("It may be chance that a transaction took ")
    assert said.endswith(f"14.0 µs longer than in {A}: 95 % interval −3.0 to +30.0 µs.")


def test_latencies_are_not_called_longer_where_their_ratio_may_be_chance() -> None:
    (found,) = explain(study_run(profiled=0), factor="server", base=A, candidate=B)
    assert any(text.startswith("A transaction takes ") for text in answer(found))
    by_chance = replace(known(found.latency_ratio), low=0.9, high=1.4)
    said = next(
        text
        for text in answer(replace(found, latency_ratio=by_chance))
        if "a transaction took" in text
    )
    assert said.startswith("It may be chance that a transaction took ")
    assert "the ratio of the blocks does not exclude it, though their 95 % interval " in said


def test_the_number_of_appliers_stands_beside_the_time_of_one(study: Explanation) -> None:
    """More of them take longer for each transaction, and less for all."""
    one = replace(study.a, breakdown=replace(known(study.a.breakdown), loop="load"))
    four = replace(study.b, breakdown=replace(known(study.b.breakdown), loop="load", clients=4))
    (said,) = (text for text in answer(replace(study, a=one, b=four)) if "longer" in text)
    assert f"longer than in {A} (that of one thread: 4 shared the work, not 1)" in said
    same = replace(study, a=one, b=replace(four, breakdown=one.breakdown))
    assert not any("of one thread" in text for text in answer(same))


def test_uncertain_server_cpu_follows_the_latency(study: Explanation) -> None:
    """A difference that could not be shown is not shown to be zero."""

    def with_cpu(mean: float, low: float, high: float, *, significant: bool) -> Explanation:
        return replace(
            study,
            efficiency=tuple(
                replace(
                    row,
                    difference=replace(row.difference, mean=mean, low=low, high=high),
                    adjusted_p=0.2,
                    significant=significant,
                )
                if row.key == "cpu_server" and row.difference is not None
                else row
                for row in study.efficiency
            ),
        )

    assert answer(study)[0].startswith(f"{B} needs ")
    first, *_, cpu = answer(with_cpu(-59.0, -89.5, -28.6, significant=False))
    assert first.startswith("A transaction takes ")
    assert cpu.startswith("It is not sure after correction for the number of rows looked at that ")
    assert f" {B} needed 59.0 µs less of server CPU per transaction than {A}: " in cpu
    assert "95 % interval −89.5 to −28.6 µs" in cpu
    first, *_, cpu = answer(with_cpu(0.4, -1.2, 2.0, significant=False))
    assert first.startswith("A transaction takes ")
    assert cpu.startswith(f"It may be chance that {B} needed 0.4 µs more of server CPU ")
    assert cpu.endswith(": 95 % interval −1.2 to +2.0 µs.")


def test_answer_names_missing_profiles(little: Explanation) -> None:
    assert any("without profiles of both" in sentence for sentence in answer(little))


def test_parts_never_seen_are_noted_once(study: Explanation) -> None:
    (note,) = breakdown_notes(study)
    assert "in neither: writing the log, flushing other files" in note
    assert "flushing other files" not in page_text(explained_page(study)).replace(note[1:], "")


def test_what_both_lack_has_one_row(study: Explanation) -> None:
    (lack,) = study.missing
    both = replace(study, missing=(lack, replace(lack, side="A")))
    ((what, where, hint),) = missing_rows(both)
    assert what == "threads: /proc/PID/io of the server may not be read"
    assert where == f"{B}, 8 trials; {A}, 8 trials"
    assert hint == "run as root, or as the server's user"


def test_what_trials_lack_of_other_shares_of_their_samples_has_one_row(study: Explanation) -> None:
    (lack,) = study.missing
    seen: tuple[tuple[Literal["A", "B"], int, int], ...] = (
        ("B", 35, 1),
        ("B", 36, 2),
        ("A", 13, 1),
    )
    lacks = [
        replace(lack, side=side, what=f"names of f of m, in {share} % of samples", trials=trials)
        for side, share, trials in seen
    ]
    other = replace(lack, what="names of f of n, in 35 % of samples")
    first, second = missing_rows(replace(study, missing=(*lacks, other)))
    assert first[:2] == (
        "threads: names of f of m, in 13 % to 36 % of samples", f"{B}, 3 trials; {A}, 1 trial"
    )  # fmt: skip
    assert second[0] == "threads: names of f of n, in 35 % of samples"


def test_shared_cpu_is_noted_at_the_breakdown(study: Explanation) -> None:
    def sharing(side: SideExplanation) -> SideExplanation:
        trials = []
        for trial in side.trials:
            (server,) = trial.attempt.instances
            facts = server.facts.replace(cpu_idle={"reason": "asked", "shared_cpu": 1})
            attempt = replace(trial.attempt, instances=(replace(server, facts=facts),))
            trials.append(replace(trial, attempt=attempt))
        return replace(side, trials=tuple(trials))

    def result(found: Explanation) -> list[str]:
        return [note for note in breakdown_notes(found) if "colocate_client" in note]

    assert result(study) == []
    (both,) = result(replace(study, a=sharing(study.a), b=sharing(study.b)))
    assert both.startswith("the client and the server’s thread take turns")
    assert "is also waiting for the client’s turn" in both
    assert both.endswith("up to 9 µs and 9 µs of it are the client’s own CPU time")
    alone = replace(study, b=sharing(study.b))
    (one,) = result(alone)
    assert one.startswith(f"in {B} the client and")
    assert one.endswith("up to 9 µs of it are the client’s own CPU time")
    assert one in explained_text([alone]).replace("\n", " ").replace("  ", " ")
    assert one[3:] in page_text(explained_page(alone))


def test_a_part_below_zero_is_explained_where_it_is_no_chance(study: Explanation) -> None:
    assert study.differences is not None

    def result(low: float, high: float) -> list[str]:
        lines = tuple(
            replace(line, b=replace(line.b, mean=-0.3, low=low, high=high))
            if line.key == "client_wire" and line.b is not None
            else line
            for line in known(study.differences).lines
        )
        found = replace(study, differences=replace(known(study.differences), lines=lines))
        return [note for note in breakdown_notes(found) if "below zero" in note]

    (note,) = result(-0.5, -0.1)
    assert note.startswith(f"client and wire is below zero in {B}: ")
    assert result(-0.7, 0.1) == []


def test_switches_are_on_and_off() -> None:
    stored = of_levels(study_run(profiled=0), "tls", False, True)
    (found,) = explain(stored, factor="tls", base=False, candidate=True)
    assert answer(found)[0].startswith("With tls on the server needs ")
    assert headings(found) == ("tls off", "tls on")
    assert command(found).endswith("--base off --candidate on")


def test_a_run_without_observers_is_known() -> None:
    (found,) = explain(unobserved(), factor="server", base=A, candidate=B)
    assert not is_observed(found)
    assert is_observed(unprofiled())


def test_the_sides_have_intervals_and_what_is_left_a_percentage(study: Explanation) -> None:
    table = breakdown_table(known(study.differences), (A, B), "transaction")
    assert [column.title for column in table.columns[1:5]] == [A, "±", B, "±"]
    *_, left, latency = table.sections[0].rows
    assert re.fullmatch(r"unaccounted \(−?\d+ % and −?\d+ %\)", left.cells[0])
    assert float(latency.cells[2]) > 0
    assert latency.verdict == "more"


def test_answer_doubts_a_single_block() -> None:
    (found,) = explain(first_blocks(study_run(profiled=0), 1), factor="server", base=A, candidate=B)
    assert all("(one block: it may be chance)" in sentence for sentence in answer(found))
    rows = breakdown_table(known(found.differences), (A, B), "transaction").sections[0].rows
    assert {row.verdict for row in rows[:-2]} == {"?"}
    assert ONE_BLOCK in explained_text([found])
    assert Page(explained_page(found)).open == []


def test_instruments_that_cover_more_than_all_say_why(study: Explanation) -> None:
    more = replace(known(study.b.coverage), waits_us=190.0, blocked_us=40.0, spinning_us=None)
    said = coverage_text(more)
    assert "more than all of 40 µs blocked" in said
    assert "%" not in said


def test_clients_are_counted() -> None:
    (found, *_) = explain(
        study_run(profiled=0, clients=(1, 16)), factor="clients", base=1, candidate=16
    )
    said = " ".join(answer(found))
    assert "µs with 16 clients" in said
    assert "with 1 client" in said
    assert "in clients" not in said


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


def test_answer_states_that_parts_were_not_measured(study: Explanation) -> None:
    unknown = replace(study, differences=replace(known(study.differences), lines=()))
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
def test_every_format_has_no_table_when_nothing_is_compared(stored: StoredRun) -> None:
    found = explained(stored)
    (said,) = answer(found)
    text, page = explained_text([found]), as_html([found], found.run)
    assert said.replace("`", "") in one_line(text.replace("`", ""))
    assert "Not compared" in page
    for shown in (text, page):
        assert "Largest waits" not in shown
        assert "What one" not in shown
    assert "<table" not in page
    document = json.loads(as_json([found], found.run))
    assert document["explanations"][0]["answer"] == [said]
    report = html.as_html(compare_run(stored), [found])
    assert "Not compared: no block has a finished trial of both" in report.replace("\u00a0", " ")
