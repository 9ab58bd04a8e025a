"""Test what an answer says of comparisons without a verdict: each reason once, and no hint."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.report.run.formats import render
from millrace.report.run.sentences import answer, sentence
from tests.support.query_runs import Levels, QueryRun
from tests.support.seconds import Series, events

BASE, OTHER, THIRD = "mysql-5.6.24", "mysql-8.0.12", "mariadb-11.8.6"
HINT = "warm up for longer"


def driven(
    servers: Sequence[str],
    falls: Callable[[str, int], bool],
    tests: Sequence[str] = ("point-query",),
    failing: str = "",
    blocks: int = 5,
) -> RunAnalysis:
    """Return a run in which some trials lose a fifth of their throughput, by server and block."""

    def series(levels: Levels, block: int) -> Series:
        name = f"{levels['server']}{levels['test']}{block}".encode()
        noise = 0.01 * np.random.default_rng(list(name)).standard_normal(30)
        shape = 1 - 0.2 * falls(str(levels["server"]), block) * np.arange(30) / 30
        return events(list(14_000 * (shape + noise)), warmup=[14_000.0] * 5)

    def also(levels: Levels, _block: int) -> Mapping[str, float]:
        return {"errors": 90_000.0} if levels["server"] == failing else {}

    return compare_run(QueryRun(servers, tests, (8,), blocks, series=series, also=also).build())


def test_comparisons_refused_alike_share_a_reason_without_its_hint() -> None:
    found = driven((BASE, OTHER, THIRD), lambda server, block: server == BASE or block == 0)
    assert answer(found) == (
        "Compared with mysql-5.6.24, mysql-8.0.12 and mariadb-11.8.6 have no verdict: 5 of 5 "
        "trials of mysql-5.6.24, 1 of 5 of mysql-8.0.12 and 1 of 5 of mariadb-11.8.6 were not "
        "steady."
    )
    assert all(HINT in sentence(each, found) for each in found.comparisons())


@pytest.mark.parametrize("output_format", ["terminal", "markdown", "html", "json"])
def test_every_format_has_the_hint_below_the_answer(output_format: str) -> None:
    found = driven((BASE, OTHER), lambda server, _block: server == OTHER)
    text = html.unescape(re.sub(r"<[^>]*>|\\", "", render(found, output_format)))
    text = " ".join(text.replace("\u00a0", " ").split())
    _, short, below = text.partition("has no verdict: 5 of 5 trials of mysql-8.0.12 were not ")
    assert short
    assert HINT in below


def test_what_has_a_verdict_comes_first() -> None:
    found = driven((BASE, OTHER, THIRD), lambda server, _block: server == THIRD)
    certain, without = answer(found).split("(regression). ")
    assert certain.startswith("Compared with mysql-5.6.24, mysql-8.0.12 gives ")
    assert without == (
        "mariadb-11.8.6 has no verdict: 5 of 5 trials of mariadb-11.8.6 were not steady."
    )


def test_reasons_of_many_comparisons_are_counted() -> None:
    servers, tests = (BASE, OTHER, THIRD, "mysql-9.7.4"), ("point-query", "insert")
    found = driven(servers, lambda server, _block: server == THIRD, tests, failing=OTHER)
    text = answer(found)
    assert text.startswith("Of 6 comparisons with mysql-5.6.24: 2 regressions (largest: ")
    assert text.endswith(
        " and 4 without a verdict. No verdict: unequal work (2 comparisons); 10 of 10 trials of "
        "mariadb-11.8.6 were not steady (2 comparisons)."
    )


def test_of_many_levels_the_trials_are_added_up() -> None:
    servers = (BASE, *(f"mysql-5.7.{number}" for number in range(1, 6)))
    found = driven(servers, lambda server, _block: server != BASE, blocks=3)
    assert answer(found) == (
        "Of 5 comparisons with mysql-5.6.24: 5 without a verdict. No verdict: 15 of 18 trials "
        "were not steady."
    )


def test_too_few_blocks_are_the_reason() -> None:
    found = driven((BASE, OTHER), lambda _server, _block: False, blocks=2)
    assert answer(found).endswith("mysql-8.0.12 has no verdict: fewer than 3 blocks.")
