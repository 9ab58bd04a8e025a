"""Test the first likely cause of a comparison in the summary of a run."""

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from millrace.analysis.certainty import Certainty
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import FirstCause, RunAnalysis
from millrace.report.run.causes import cause_text
from millrace.report.run.formats import render
from millrace.report.run.sentences import answer, sentence
from tests.support.builders import RunBuilder, noisy
from tests.support.reports import one_line

BASE, OTHER = "mysql-5.6.24", "mysql-8.0.33"
LOG = FirstCause(
    "binary log", {"log_bin": ("OFF", "ON"), "sync_binlog": ("0", "1")}, Certainty.LIKELY
)
POSSIBLE = replace(LOG, certainty=Certainty.POSSIBLE)
IN_FULL = "binary log (log_bin is ON, in mysql-5.6.24 OFF; sync_binlog is 1, in mysql-5.6.24 0)"


def with_cause(
    cause: FirstCause = LOG, *, slower: tuple[float, ...] = noisy(6.0, 5, seed=2), others: int = 0
) -> RunAnalysis:
    more = {f"mysql-8.4.{number}": slower for number in range(others)}
    found = compare_run(RunBuilder({BASE: noisy(4.0, 5), OTHER: slower, **more}).build())
    causes = {(each.base_id, each.candidate_id): cause for each in found.comparisons()}
    return replace(found, causes=causes)


def test_a_decided_difference_names_its_first_cause() -> None:
    found = with_cause()
    assert answer(found).endswith(" (regression; likely cause: binary log).")
    assert sentence(found.comparisons()[0], found).endswith(
        f": regression. Likely cause: {IN_FULL}."
    )


def test_functions_follow_the_cause_when_they_are_known() -> None:
    functions = {"row_sel_store(row_prebuilt_t*)": (8.13, 0.57), "cmp_rec": (2.5, 0.21)}
    found = with_cause(replace(LOG, functions=functions))
    first = "mostly in row_sel_store (+8.13 µs of CPU, 57 %)"
    assert answer(found).endswith(f"likely cause: binary log, {first}).")
    assert cause_text(found.comparisons()[0], found).endswith(
        "), mostly in row_sel_store (+8.13 µs of CPU, 57 %) and cmp_rec (+2.50 µs of CPU, 21 %)"
    )
    partly = with_cause(replace(LOG, functions={"cmp_rec": (2.5, 0.21)}))
    assert ", partly in cmp_rec (+2.50 µs of CPU, 21 %)" in answer(partly)


def test_a_fact_is_a_possible_cause_of_what_is_not_beyond_doubt() -> None:
    undecided = with_cause(POSSIBLE, slower=(8.0, 4.2, 5.5, 4.1, 6.0))
    assert "; possible cause: binary log)." in answer(undecided)
    (comparison,) = undecided.comparisons()
    assert sentence(comparison, undecided).endswith(f". Possible cause: {IN_FULL}.")


def test_cause_shown_by_an_experiment_is_named_so() -> None:
    found = with_cause(replace(LOG, certainty=Certainty.SHOWN))
    assert cause_text(found.comparisons()[0], found).startswith("cause shown by an experiment: ")


def test_what_does_not_differ_has_no_cause() -> None:
    alike = with_cause(slower=noisy(4.0, 5))
    assert {each.verdict for each in alike.comparisons()} == {"equivalent"}
    assert "cause" not in answer(alike)


def test_what_only_may_differ_has_no_cause() -> None:
    unknown = with_cause(POSSIBLE, slower=(4.6, 3.6, 4.0, 4.4, 3.6))
    assert "no difference beyond 2 % so far" in answer(unknown)
    assert "cause" not in answer(unknown)


def test_other_metrics_have_none() -> None:
    found = with_cause()
    texts = {
        each.metric.name: cause_text(each, found)
        for group in found.groups
        for each in group.comparisons
    }
    assert texts["throughput"] == texts["time"] != ""
    assert texts["count_time"] == ""


def test_cause_leaves_out_the_compared_factor() -> None:
    found = with_cause(replace(LOG, settings={"server": (BASE, OTHER)}))
    assert cause_text(found.comparisons()[0], found) == "likely cause: binary log"


def test_long_and_missing_values_are_short() -> None:
    settings: dict[str, tuple[str | None, str | None]] = {"optimizer_switch": (None, "x" * 200)}
    text = cause_text(
        (found := with_cause(replace(LOG, settings=settings))).comparisons()[0], found
    )
    assert text.endswith(f"(optimizer_switch is {'x' * 39}…, in mysql-5.6.24 not set)")


def text_of(**changed: Any) -> str:
    found = with_cause(replace(LOG, **changed))
    return cause_text(found.comparisons()[0], found)


def test_cause_has_only_the_switches_that_differ() -> None:
    same = ",".join(f"switch_{n}=on" for n in range(20))
    switches = (f"{same},mrr=on", f"mrr=off,{same}")
    text = text_of(settings={"optimizer_switch": switches})
    assert text.endswith("(optimizer_switch is mrr=off, in mysql-5.6.24 mrr=on)")


@pytest.mark.parametrize(
    ("names", "values", "text"),
    [
        (
            ("tx_isolation", "transaction_isolation"),
            ("READ-COMMITTED", "REPEATABLE-READ"),
            "transaction_isolation is REPEATABLE-READ, in mysql-5.6.24 tx_isolation READ-COMMITTED",
        ),
        ((None, "engine"), ("MEMORY", "TempTable"), "engine is TempTable, mysql-5.6.24 has none"),
        (("x", None), ("ON", "OFF"), "mysql-5.6.24 has x ON, the other has none"),
    ],
)
def test_settings_have_the_names_of_each_server(
    names: tuple[str | None, str | None], values: tuple[str, str], text: str
) -> None:
    assert text_of(settings={"x": values}, names={"x": names}).endswith(f"({text})")


def test_cause_has_its_measured_share() -> None:
    shown = text_of(certainty=Certainty.SHOWN, share=0.43)
    assert shown.startswith("cause shown by an experiment: binary log, 43 % of the difference (")
    whole = text_of(certainty=Certainty.SHOWN, share=1.0)
    assert whole.startswith("cause shown by an experiment: binary log (")


def test_causes_of_many_comparisons_are_counted() -> None:
    text = answer(with_cause(others=5))
    assert "% fewer rows/s, likely cause: binary log)" in text
    assert text.endswith(" First causes named: binary log (6).")


@pytest.mark.parametrize("output_format", ["terminal", "markdown", "html", "json"])
def test_every_format_names_it(output_format: str) -> None:
    text = render(with_cause(), output_format).replace("\u00a0", " ").replace("\\_", "_")
    assert "likely cause: binary log" in one_line(text)


def test_documents_have_a_key_of_it() -> None:
    found = with_cause()
    document = json.loads(render(found, "json"))
    keys = {each["metric"]: each["first_cause"] for each in document["comparisons"]}
    assert keys["throughput"] == f"likely cause: {IN_FULL}"
    assert keys["count_time"] is None
    rows = list(csv.DictReader(io.StringIO(render(found, "csv"))))
    assert rows[0]["first_cause"] == f"likely cause: {IN_FULL}"
