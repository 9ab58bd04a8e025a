"""Test explanations as a page, in a terminal and as JSON."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from dataclasses import replace
from importlib import resources
from typing import Literal

import pytest
from rich.console import Console

from millrace.analysis.explain.explanation import Explanation, SideExplanation, explain, is_observed
from millrace.report.explanation import terminal as explain_terminal
from millrace.report.explanation.caveats import caveat_sentences
from millrace.report.explanation.html import FLAME_GRAPHS, as_html
from millrace.report.explanation.json import ExplanationDocument, as_json
from millrace.report.explanation.sentences import (
    answer,
    breakdown_notes,
    command,
    headings,
    missing_rows,
)
from tests.support.observed_trials import A, B
from tests.unit.report.explanation.explained import (
    explained_text,
    of_levels,
    study_run,
    unobserved,
    unprofiled,
)
from tests.unit.report.json_schema import json_schema
from tests.unit.report.run.test_formats import Page

SECTIONS = [
    "answer", "causes", "breakdown", "efficiency", "waits", "plans", "groups", "functions",
    "flame", "flat", "settings", "disturbances", "missing",
]  # fmt: skip


def page(*explanations: Explanation) -> str:
    return as_html(explanations, explanations[0].run)


def text_of(html: str) -> str:
    """Return the text of a page, with single spaces."""
    without = re.sub(r"<(script|style)>.*?</\1>", "", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", "", without).replace("\u00a0", " ").split())


def test_the_answer_adds_up(study: Explanation) -> None:
    """The parts and the remainder in a sentence sum to the difference that it states."""
    cpu, _functions, latency = answer(study)
    for sentence in (cpu, latency):
        whole = float(re.findall(r"([\d.]+) µs (?:more|longer)", sentence)[0])
        parts = re.findall(r"([+−])([\d.]+)", sentence)
        total = sum(float(size) * (1 if sign == "+" else -1) for sign, size in parts)
        # Each figure is rounded to a tenth.
        assert total == pytest.approx(whole, abs=0.06 * len(parts))


def test_the_answer_says_what_is_left(study: Explanation) -> None:
    cpu, functions, latency = answer(study)
    assert functions.startswith("Most of it is in Sql_cmd_insert_values::execute_inner (+8.53 µs")
    assert cpu.startswith(f"{B} needs ")
    assert cpu.endswith(" unexplained.")
    assert "more of server CPU per transaction than mysql-5.6.24" in cpu
    assert latency.startswith("A transaction takes ")
    assert latency.endswith(" unaccounted.")
    assert "waiting for the log to be flushed" in latency


def test_waiting_comes_first_where_it_is_what_differs(study: Explanation) -> None:
    assert study.differences is not None
    lines = tuple(
        replace(line, difference=replace(line.difference, mean=0.0))
        if line.key in ("cpu_user", "cpu_system")
        else line
        for line in study.differences.lines
    )
    waiting = replace(study, differences=replace(study.differences, lines=lines))
    assert answer(waiting)[0].startswith("A transaction takes ")


def test_what_is_not_sure_is_not_called_more() -> None:
    (found,) = explain(study_run(profiled=0), factor="server", base=A, candidate=B)
    assert found.differences is not None
    wide = replace(found.differences.latency, mean=14.0, low=-3.0, high=30.0)
    unsure = replace(found, differences=replace(found.differences, latency=wide))
    said = next(text for text in answer(unsure) if "a transaction took" in text)
    assert said.startswith("It may be chance that a transaction took ")
    assert said.endswith(f"14.0 µs longer than in {A}: 95 % interval −3.0 to +30.0 µs.")


def test_latencies_are_not_called_longer_where_their_ratio_may_be_chance() -> None:
    (found,) = explain(study_run(profiled=0), factor="server", base=A, candidate=B)
    assert found.latency_ratio is not None
    assert any(text.startswith("A transaction takes ") for text in answer(found))
    by_chance = replace(found.latency_ratio, low=0.9, high=1.4)
    said = next(
        text
        for text in answer(replace(found, latency_ratio=by_chance))
        if "a transaction took" in text
    )
    assert said.startswith("It may be chance that a transaction took ")
    assert "the ratio of the blocks does not exclude it, though their 95 % interval " in said


def test_the_number_of_appliers_stands_beside_the_time_of_one(study: Explanation) -> None:
    """More of them take longer for each transaction, and less for all."""
    assert study.a.breakdown is not None
    assert study.b.breakdown is not None
    one = replace(study.a, breakdown=replace(study.a.breakdown, loop="load"))
    four = replace(study.b, breakdown=replace(study.b.breakdown, loop="load", clients=4))
    (said,) = (text for text in answer(replace(study, a=one, b=four)) if "longer" in text)
    assert f"longer than in {A} (that of one thread: 4 shared the work, not 1)" in said
    same = replace(study, a=one, b=replace(four, breakdown=one.breakdown))
    assert not any("of one thread" in text for text in answer(same))


def test_server_cpu_that_is_not_sure_is_told_as_found_and_after_the_latency(
    study: Explanation,
) -> None:
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


def test_without_profiles_the_answer_says_so(little: Explanation) -> None:
    assert any("without profiles of both" in sentence for sentence in answer(little))


def test_parts_that_were_never_seen_are_told_once(study: Explanation) -> None:
    (note,) = breakdown_notes(study)
    assert "in neither: writing the log, flushing other files" in note
    assert "flushing other files" not in text_of(page(study)).replace(note[1:], "")


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


def test_a_shared_cpu_is_told_beside_the_account(study: Explanation) -> None:
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
    assert one[3:] in text_of(page(alone))


def test_a_part_below_zero_is_explained_where_it_is_no_chance(study: Explanation) -> None:
    assert study.differences is not None

    def result(low: float, high: float) -> list[str]:
        assert study.differences is not None
        lines = tuple(
            replace(line, b=replace(line.b, mean=-0.3, low=low, high=high))
            if line.key == "client_wire" and line.b is not None
            else line
            for line in study.differences.lines
        )
        found = replace(study, differences=replace(study.differences, lines=lines))
        return [note for note in breakdown_notes(found) if "below zero" in note]

    (note,) = result(-0.5, -0.1)
    assert note.startswith(f"client and wire is below zero in {B}: ")
    assert result(-0.7, 0.1) == []


def test_values_of_an_option_are_named_and_short_in_tables() -> None:
    option = "options.innodb_flush_log_at_trx_commit"
    name = "innodb_flush_log_at_trx_commit"
    (found,) = explain(of_levels(study_run(), option, "0", "1"), factor=option, base="0",
                       candidate="1")  # fmt: skip
    cpu, _functions, latency = answer(found)
    assert cpu.startswith(f"With {name} = 1 the server needs ")
    assert f"than with {name} = 0: " in cpu
    assert f" µs with {name} = 1, " in latency
    assert f"longer than with {name} = 0: " in latency
    assert f"1 of 5 blocks of {name} = 1 was disturbed" in " ".join(caveat_sentences(found))
    assert headings(found) == ("A: 0", "B: 1")
    text = explained_text([found])
    assert f"A is {name} = 0, B is {name} = 1" in " ".join(text.split())
    assert all(len(line) <= 120 for line in text.splitlines())
    html = page(found)
    assert '<th scope="col" class="number">B: 1</th>' in html
    assert not re.search(r"[\d,.−+]<span class=\"name\">|\d</span>\d", html)
    assert "--base 0 --candidate 1" in command(found)


def test_switches_are_on_and_off() -> None:
    stored = of_levels(study_run(profiled=0), "tls", False, True)
    (found,) = explain(stored, factor="tls", base=False, candidate=True)
    assert answer(found)[0].startswith("With tls on the server needs ")
    assert headings(found) == ("tls off", "tls on")
    assert command(found).endswith("--base off --candidate on")


def test_half_widths_are_no_halves_of_blocks(study: Explanation) -> None:
    assert "± is half the width of a side’s own interval" in text_of(page(study))


def test_a_run_without_observers_is_known() -> None:
    (found,) = explain(unobserved(), factor="server", base=A, candidate=B)
    assert not is_observed(found)
    assert is_observed(unprofiled())


def test_the_page_is_well_formed_in_order_and_loads_nothing(study: Explanation) -> None:
    found = Page(page(study))
    assert found.open == []
    assert found.sections == [f"explanation-1-{name}" for name in SECTIONS]
    assert found.loads == ["script"], "our own, inside"


def test_only_our_script_may_run(study: Explanation) -> None:
    text = page(study)
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text


def test_a_page_without_graphs_has_no_script(little: Explanation) -> None:
    text = page(little)
    assert "<script" not in text
    assert "script-src" not in text
    assert Page(text).sections == [
        f"explanation-1-{name}"
        for name in ("answer", "causes", "breakdown", "efficiency", "settings")
    ]


def test_every_section_says_how_to_read_it(study: Explanation) -> None:
    text = page(study)
    sections = re.findall(r'<section id="explanation-1-(\w+)">\n<h3>.*?</h3>\n(.*?)\n', text)
    assert [name for name, _ in sections] == SECTIONS[1:]
    assert all(line.startswith('<p class="how">') for _, line in sections)


def test_several_explanations_share_a_page(study: Explanation, little: Explanation) -> None:
    text = page(study, little)
    found = Page(text)
    assert found.open == []
    assert len(set(found.sections)) == len(found.sections)
    links = re.findall(r'href="#([^"]+)"', text)
    assert set(links) <= set(found.sections)


def test_a_page_of_many_leaves_graphs_out(study: Explanation) -> None:
    text = page(*[study] * (FLAME_GRAPHS + 1))
    assert 'class="flame-graph"' not in text
    assert "--flame-graph FILE" in text


def test_names_are_text(study: Explanation) -> None:
    nasty = "<script>alert(1)</script>"
    named = replace(study, b=replace(study.b, label=nasty))
    assert nasty not in page(named)


def test_the_page_shows_what_there_is(study: Explanation) -> None:
    text = text_of(page(study))
    for said in (
        "the binary log is on in mysql-9.7.4 alone",
        "parsing takes longer shown by an experiment",
        "sync_binlog: 0 and 1",
        "wait/io/file/innodb/innodb_log_file",
        "reads sbtest1 by index k_1 in A, by a full scan in B",
        "instrumented waits",
        "redo logging",
        "What it was blocked in",
        "Sql_cmd_insert_values::execute_inner",
        "a backup used 0.4 of a CPU",
        "/proc/PID/io of the server may not be read",
    ):
        assert said in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_cuts_nothing(study: Explanation, width: int) -> None:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    explain_terminal.show([study], console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max(len(line) for line in text.splitlines()) <= width
    for said in ("waiting for a lock", "redo logging", "unaccounted", "not seen:", "disturbed:"):
        assert said in " ".join(text.split())


def test_of_many_the_terminal_shows_the_answers(study: Explanation) -> None:
    text = explained_text([study] * 5)
    assert text.count("mysql-9.7.4 needs") == 5
    assert "client and wire" not in text
    assert "--candidate LEVEL" in text


def test_json_is_what_its_schema_says(study: Explanation, little: Explanation) -> None:
    text = as_json([study, little], study.run)
    document = ExplanationDocument.model_validate_json(text, strict=True)
    assert json.loads(text)["schema"] == "millrace.explanation/2"
    first, second = document.explanations
    assert first.breakdown is not None
    lines = [*first.breakdown.lines, first.breakdown.unaccounted]
    assert sum(line.difference.mean for line in lines) == pytest.approx(
        first.breakdown.latency.mean
    )
    assert first.profile is not None
    assert sum(group.a_us for group in first.profile.groups) == pytest.approx(
        first.profile.a_cpu_us
    )
    assert second.profile is None


def test_where_nobody_is_suspected_it_says_why(study: Explanation) -> None:
    why = "No cause follows from the times: latencies do not differ by more than chance."
    alike = replace(study, likely_causes=(), why_no_likely_causes=why)
    for found, times in ((alike, 1), (study, 0)):
        assert " ".join(explained_text([found]).split()).count(why) == times
        assert text_of(page(found)).count(why) == times
        (result,) = json.loads(as_json([found], found.run))["explanations"]
        assert result["why_no_likely_causes"] == (why if times else None)


def test_the_schema_file_is_up_to_date() -> None:
    file = resources.files("millrace.report") / "schema" / "explanation-2.schema.json"
    assert json.loads(file.read_text("utf-8")) == json_schema(ExplanationDocument)
