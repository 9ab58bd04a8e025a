"""Test the answer, the summary, and the sentence of a comparison."""

import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.report.run.formats import render
from millrace.report.run.html import as_html
from millrace.report.run.json import as_json
from millrace.report.run.markdown import as_markdown
from millrace.report.run.sentences import answer, effect, sentence, summary
from millrace.report.run.tables import results_table
from millrace.report.run.terminal import as_text
from tests.support.builders import Fails, RunBuilder, noisy, study
from tests.support.driven_runs import falling
from tests.support.query_runs import Levels, QueryRun
from tests.support.reports import one_line

Times = dict[tuple[str, str], Sequence[float | Fails | None]]
BASE, OTHER, NEWER, THIRD = "mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.12", "mariadb-11.8.6"


def analysis(
    *times: float | Fails | None, base: tuple[float, ...] = (4.0, 4.1, 3.9)
) -> RunAnalysis:
    return compare_run(RunBuilder({BASE: base, OTHER: times}).build())


def only_sentence(found: RunAnalysis, metric: str = "throughput") -> str:
    (comparison,) = (c for c in found.groups[0].comparisons if c.metric.name == metric)
    return sentence(comparison, found)


def test_a_regression_in_a_sentence() -> None:
    found = analysis(4.42, 4.55, 4.35)
    text = only_sentence(found)
    assert text.startswith("mysql-5.7.22 gives 9.9 % fewer rows/s than mysql-5.6.24: ")
    assert text.endswith("0.901, 95 % interval 0.890 to 0.911 over 3 blocks: regression.")
    assert only_sentence(found, "time").startswith(
        "mysql-5.7.22 takes 11.0 % more time (time to load and finish) than mysql-5.6.24: "
    )


def test_a_large_difference_is_a_multiple() -> None:
    slow, fast = analysis(134.0, 141.0, 131.0), analysis(0.4, 0.42, 0.39)
    assert only_sentence(slow).startswith(
        "mysql-5.7.22 is 33.8 times slower than mysql-5.6.24: ratio 0.0296, 95 % interval 0.0285 "
        "to 0.0306 (32.6 to 35.1 times) over 3 blocks: regression."
    )
    assert only_sentence(slow, "time").startswith(
        "mysql-5.7.22 takes 33.8 times as much time (time to load and finish) as mysql-5.6.24: "
    )
    assert only_sentence(fast).startswith(
        "mysql-5.7.22 gives 9.92 times as many rows/s as mysql-5.6.24: "
    )
    assert "gives 9.92 times as many rows/s (improvement" in answer(fast)
    higher = slow.headline.model_copy(update={"unit": "B", "title": "bytes per row"})
    assert effect(5.0, higher) == "has 5 times the bytes per row"
    assert effect(5.0, higher, "none") == "has 5 times the bytes per row of none"
    assert effect(0.2, higher, "none") == "has 5 times lower bytes per row than none"
    assert effect(1 / 4508, slow.headline, "10.11") == "is 4,510 times slower than 10.11"
    rate = slow.headline.model_copy(update={"primary": False, "title": "rows"})
    assert effect(0.25, rate, "none") == "gives 4 times fewer rows/s (rows) than none"
    seconds = slow.metrics[1]
    assert effect(0.25, seconds).startswith("takes 4 times less time (time to load")
    assert effect(2.9, higher, "none") == "has 190.0 % higher bytes per row than none"


def test_too_few_blocks() -> None:
    text = only_sentence(analysis(4.4, 4.5, base=(4.0, 4.1)))
    assert text.endswith(
        "no verdict, 2 blocks; at least 3 are needed. So far ratio 0.910, 95 % interval 0.897 to "
        "0.923 over 2 blocks."
    )


def test_a_failure_names_step_and_reason_in_one_line() -> None:
    text = only_sentence(analysis(*[Fails("start", "unknown option\nand more")] * 3))
    assert text.startswith("mysql-5.7.22 against mysql-5.6.24: failed: ")
    assert "failed at step start: unknown option; 3 of 3 trials" in text
    assert "\n" not in text


def test_like_with_like() -> None:
    builder = RunBuilder({BASE: noisy(4, 3), "again": noisy(4, 3)}, aliases={"again": BASE})
    text = only_sentence(compare_run(builder.build()))
    assert text.startswith("again is the same as mysql-5.6.24, ")
    assert "(A/A): ratio 1.000" in text


def test_held_levels_are_named_where_they_vary() -> None:
    found = compare_run(study())
    sentences = [sentence(comparison, found) for comparison in found.comparisons()]
    assert any("than mysql-5.6.24 (wmf): " in text for text in sentences)
    assert not any("InnoDB" in text for text in sentences)


def test_the_answer_names_each_of_a_few() -> None:
    assert answer(analysis(4.42, 4.55, 4.35)) == (
        "Compared with mysql-5.6.24, mysql-5.7.22 gives 9.9 % fewer rows/s (regression)."
    )


def test_failed_trials_are_counted_with_a_regression() -> None:
    found = analysis(4.42, Fails(), 4.55, 4.35, base=(4.0, 4.05, 4.1, 3.9))
    lost = "1 of 4 trials of mysql-5.7.22 failed"
    assert only_sentence(found).endswith(f" over 3 blocks: regression; {lost}.")
    assert answer(found).endswith(f" (regression; {lost}).")


def test_failed_trials_are_counted_among_many_comparisons() -> None:
    times = {f"mysql-5.7.{n}": noisy(4.0 + n / 4, 4, seed=n) for n in range(1, 6)}
    partly = {"mysql-5.7.6": (5.0, 5.1, Fails(), 5.0), "mysql-5.7.7": [Fails()] * 4}
    found = compare_run(RunBuilder({BASE: noisy(4.0, 4), **times, **partly}).build())
    assert " and 1 failed. 1 of them rests on fewer trials: some failed." in answer(found)


def test_the_answer_counts_many() -> None:
    times = {f"mysql-5.7.{n}": noisy(4.0 + n / 4, 3, seed=n) for n in range(1, 7)}
    found = compare_run(RunBuilder({BASE: noisy(4.0, 3), **times}).build())
    assert answer(found).startswith("Of 6 comparisons with mysql-5.6.24: 6 regressions ")
    assert "(largest: mysql-5.7.6 gives " in answer(found)


def test_failed_base_is_named_once_and_candidates_are_not_failed() -> None:
    times = {name: noisy(4.0, 3) for name in (OTHER, "mysql-8.0.12")}
    found = compare_run(
        RunBuilder({BASE: [Fails("start", "no such option\nand more")] * 3, **times}).build()
    )
    assert answer(found).startswith("No comparison could be made: the base mysql-5.6.24 failed")
    assert answer(found).endswith("no such option; 3 of 3 trials of mysql-5.6.24 failed.")
    for name, comparison in zip(times, found.comparisons(), strict=True):
        text = sentence(comparison, found)
        assert text.startswith(f"{name} against mysql-5.6.24: base failed, ")
    rows = results_table(found, found.headline, found.time).sections[0].rows
    assert [row.cells[-1] for row in rows] == ["failed", "base failed", "base failed"]
    assert {comparison.verdict for comparison in found.comparisons()} == {"failed"}


def test_answer_has_the_first_of_many_reasons() -> None:
    names = (BASE, OTHER, "mysql-8.0.12", "mysql-9.0")
    times = {name: [Fails("fits", f"no room for {name}")] * 3 for name in names}
    found = compare_run(RunBuilder(times).build())
    first = found.failures[0].treatment
    assert f" 12 of 12 trials failed, the first, {first}, at step fits: " in answer(found)
    assert answer(found).endswith(f": no room for {first}.")


def test_answer_names_a_failed_base_of_one_group() -> None:
    times: Times = {(name, "default"): noisy(4.0, 3) for name in (BASE, OTHER, "mysql-8.0.12")}
    failing: Times = {(name, "wmf"): noisy(4.0, 3) for name in (OTHER, "mysql-8.0.12")}
    failing[BASE, "wmf"] = [Fails()] * 3
    factors = {"configuration": ["default", "wmf"]}
    all_: Times = {**times, **failing}
    few = {key: of_key for key, of_key in all_.items() if key[0] != "mysql-8.0.12"}
    text = answer(compare_run(RunBuilder(few, factors=factors).build()))
    assert text.endswith(f"{OTHER} (wmf) has nothing to be compared with (the base failed).")
    all_ |= {("mysql-9.0", "default"): noisy(4.0, 3), ("mysql-9.0", "wmf"): [Fails()] * 3}
    text = answer(compare_run(RunBuilder(all_, factors=factors).build()))
    assert text.startswith("Of 6 comparisons with mysql-5.6.24: ")
    assert text.endswith(" 1 failed and 2 whose base failed.")


@pytest.mark.parametrize("times", [(None, None, None), [Fails("start", "no")] * 3])
def test_answer_states_that_nothing_could_be_compared(
    times: tuple[float | Fails | None, ...],
) -> None:
    assert answer(analysis(*times)).startswith("No comparison could be made: ")


def driven(
    *servers: str, tests: Sequence[str] = ("point-query",), blocks: int = 6, **changed: Any
) -> RunAnalysis:
    """Return servers with equal transactions/s and different CPU time per transaction."""
    rate: dict[str, Any] = {"noise": 0.0005, "rate": lambda _levels: 5_000.0}
    return compare_run(QueryRun(servers, tests, (1,), blocks=blocks, **(rate | changed)).build())


def test_answer_has_differences_outside_the_headline_metric() -> None:
    found = driven(BASE, "mysql-9.7.4")
    assert {each.verdict for each in found.comparisons()} == {"equivalent"}
    result = answer(found)
    assert " (equivalent). In other metrics, mysql-9.7.4 takes 41.2 % more time " in result
    assert result.endswith(" (server CPU time of a transaction) (regression).")
    for said in (as_text(found), as_markdown(found), as_html(found)):
        assert "In other metrics, " in one_line(said)


def test_another_metric_in_the_unit_of_the_headline_is_named_by_its_title() -> None:
    stalls = {
        "title": "throughput with stalls",
        "unit": "transactions/s",
        "direction": "higher",
        "numerator": ["transactions"],
        "denominator": ["round_s"],
    }
    found = driven(
        BASE,
        OTHER,
        also=lambda levels, _block: {"round_s": 30.0 if levels["server"] == BASE else 40.0},
        metrics={"throughput_with_stalls": stalls},
    )
    said = f"{OTHER} gives 25.0 % fewer transactions/s (throughput with stalls)"
    assert f" and {said} (regression)." in answer(found).partition("In other metrics, ")[2]
    (other,) = (c for c in found.groups[0].comparisons if c.metric.name == "throughput_with_stalls")
    assert sentence(other, found).startswith(f"{said} than {BASE}: ratio 0.750")


def test_many_differences_of_other_metrics_are_counted() -> None:
    found = driven(BASE, "mysql-8.0.12", "mysql-9.7.4", tests=("a", "b", "c"))
    said = " equivalent. Also in "
    assert said in answer(found)
    assert ": 6 regressions (largest: mysql-9.7.4 (" in answer(found).partition(said)[2]


def test_answer_has_a_difference_in_the_headline_metric_once() -> None:
    found = compare_run(QueryRun((BASE, "mysql-9.7.4"), ("point-query",), (1,), blocks=6).build())
    assert {each.verdict for each in found.comparisons()} == {"regression"}
    assert "In other metrics" not in answer(found)


def slow_tails(*candidates: str, rate: float = 5_000.0, **changed: Any) -> RunAnalysis:
    """Return candidates of ``rate`` and a base of 5,000/s.

    The slowest tenth of a candidate's transactions takes three times as long.
    """
    return driven(
        BASE,
        *candidates,
        rate=lambda levels: 5_000.0 if levels["server"] == BASE else rate,
        tail=lambda levels: 1.0 if levels["server"] == BASE else 3.0,
        **changed,
    )


def test_every_format_has_a_tail_that_grew_more_than_the_headline() -> None:
    found = slow_tails(OTHER, rate=4_800.0)
    verdicts = {
        metric.name: found.comparisons(metric)[0].verdict
        for metric in found.metrics
        if metric.name != "server_cpu"
    }
    assert verdicts == {"throughput": "regression", "p99": "regression"}
    said = "99th percentile of response time"
    assert said in answer(found)
    assert json.loads(as_json(found))["answer"] == answer(found)
    for text in (as_text(found), as_markdown(found), as_html(found)):
        plain = re.sub(r"<[^>]+>", "", text).replace("\u00a0", " ")
        answered = one_line(plain).partition("In other metrics, ")[2]
        assert answered.startswith(f"{OTHER} ")
        assert f"{said} (regression)." in answered[:120]


def test_each_metric_is_named_where_many_differences_are_counted() -> None:
    def cpu(levels: Levels, _block: int) -> dict[str, float]:
        return {"server_user_s": 6.0 if levels["server"] == BASE else 60.0}

    names = [f"mysql-5.7.{number}" for number in range(1, 6)]
    found = slow_tails(*names, also=cpu)
    first, second = answer(found).partition("Also ")[2].split("; ")
    assert first.startswith("in 99th percentile of response time: 5 regressions (largest: ")
    assert second.startswith("in server CPU time of a transaction: 5 regressions (largest: ")


def test_answer_leaves_out_an_undecided_tail() -> None:
    assert "percentile" not in answer(slow_tails(OTHER, blocks=2))


HINT = "warm up for longer"


def test_comparisons_refused_alike_share_a_reason_without_its_hint() -> None:
    found = falling(lambda server, block: server == BASE or block == 0, (BASE, NEWER, THIRD))
    assert answer(found) == (
        "Compared with mysql-5.6.24, mysql-8.0.12 and mariadb-11.8.6 have no verdict: 5 of 5 "
        "trials of mysql-5.6.24, 1 of 5 of mysql-8.0.12 and 1 of 5 of mariadb-11.8.6 were not "
        "steady."
    )
    assert all(HINT in sentence(each, found) for each in found.comparisons())


@pytest.mark.parametrize("output_format", ["terminal", "markdown", "html", "json"])
def test_every_format_has_the_hint_below_the_answer(output_format: str) -> None:
    found = falling(lambda server, _block: server == NEWER, (BASE, NEWER))
    text = html.unescape(re.sub(r"<[^>]*>|\\", "", render(found, output_format)))
    text = one_line(text)
    _, short, below = text.partition("has no verdict: 5 of 5 trials of mysql-8.0.12 were not ")
    assert short
    assert HINT in below


def test_what_has_a_verdict_comes_first() -> None:
    found = falling(lambda server, _block: server == THIRD, (BASE, NEWER, THIRD))
    certain, without = answer(found).split("(regression). ")
    assert certain.startswith("Compared with mysql-5.6.24, mysql-8.0.12 gives ")
    assert without == (
        "mariadb-11.8.6 has no verdict: 5 of 5 trials of mariadb-11.8.6 were not steady."
    )


def test_reasons_of_many_comparisons_are_counted() -> None:
    def failing(levels: Levels, _block: int) -> Mapping[str, float]:
        return {"errors": 90_000.0} if levels["server"] == NEWER else {}

    servers, tests = (BASE, NEWER, THIRD, "mysql-9.7.4"), ("point-query", "insert")
    found = falling(lambda server, _block: server == THIRD, servers, tests, also=failing)
    text = answer(found)
    assert text.startswith("Of 6 comparisons with mysql-5.6.24: 2 regressions (largest: ")
    assert text.endswith(
        " and 4 without a verdict. No verdict: unequal work (2 comparisons); 10 of 10 trials of "
        "mariadb-11.8.6 were not steady (2 comparisons)."
    )


def test_of_many_levels_the_trials_are_added_up() -> None:
    servers = (BASE, *(f"mysql-5.7.{number}" for number in range(1, 6)))
    found = falling(lambda server, _block: server != BASE, servers, blocks=3)
    assert answer(found) == (
        "Of 5 comparisons with mysql-5.6.24: 5 without a verdict. No verdict: 15 of 18 trials "
        "were not steady."
    )


def test_too_few_blocks_are_the_reason() -> None:
    found = falling(lambda _server, _block: False, (BASE, NEWER), blocks=2)
    assert answer(found).endswith("mysql-8.0.12 has no verdict: fewer than 3 blocks.")


def of(times: dict[str, tuple[float, ...]]) -> RunAnalysis:
    return compare_run(RunBuilder(times).build())


def many(number: int, slower: int) -> RunAnalysis:
    """Return a comparison of many servers, some of which are slower, each by more than the last."""
    others = {
        f"mysql-8.4.{each}": noisy(4.0 + (each + 1 if each < slower else 0), 5, seed=each)
        for each in range(number)
    }
    return of({BASE: noisy(4.0, 5, seed=99), **others})


@pytest.mark.parametrize(("number", "slower"), [(1, 1), (2, 1), (3, 3), (12, 9), (40, 0), (40, 39)])
def test_summary_is_one_sentence_of_30_words_at_most(number: int, slower: int) -> None:
    found = summary(many(number, slower))
    assert len(found.split()) <= 30
    assert found.endswith(".")
    assert ". " not in found


def test_summary_names_the_largest_regressions_first() -> None:
    found = summary(many(12, 9))
    assert found.startswith(f"Of 12 comparisons with {BASE}: 9 regressions")
    assert "; largest regressions: mysql-8.4.8 is 3.23 times slower" in found
    assert " and mysql-8.4.7 gives " in found
    assert "mysql-8.4.6" not in found


def test_summary_names_the_largest_improvement_when_nothing_is_slower() -> None:
    found = summary(
        of({BASE: noisy(4.0, 5), NEWER: noisy(2.0, 5), "mysql-9.7.4": noisy(3.0, 5, seed=3)})
    )
    assert "2 improvements; largest improvements: mysql-8.0.12 gives " in found


def test_summary_of_one_comparison_has_its_effect() -> None:
    found = summary(of({BASE: noisy(4.0, 5), NEWER: noisy(6.0, 5, seed=2)}))
    assert found.startswith(f"Compared with {BASE}, {NEWER} gives ")
    assert found.endswith("fewer rows/s (regression).")


def test_summary_of_an_undecided_comparison_is_not_beyond_doubt() -> None:
    found = summary(of({BASE: noisy(4.0, 5), NEWER: (8.0, 4.2, 5.5, 4.1, 6.0)}))
    assert found.startswith(f"Not beyond doubt yet, compared with {BASE}: {NEWER}, slower in ")


def test_summary_of_failures_makes_no_comparison() -> None:
    assert summary(of({BASE: noisy(4.0, 5), NEWER: (None,) * 5})) == (  # type: ignore[dict-item]
        "No comparison could be made: no pair of trials has a result."
    )


def test_page_has_the_summary_alone_in_large_type() -> None:
    analysis = many(12, 9)
    page = as_html(analysis)
    (large,) = re.findall(r'<p class="answer">(.*?)</p>', page, re.DOTALL)
    assert len(re.sub(r"<[^>]+>", "", large).split()) <= 40  # with no-break spaces as words
    assert page.index('class="answer"') < page.index("<svg") < page.index('id="verdicts"')
    assert answer(analysis) != summary(analysis)
