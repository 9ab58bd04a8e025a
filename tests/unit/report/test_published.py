from __future__ import annotations

import pytest

from millrace.analysis.judge import judge
from millrace.report.published import PublishedFigure, published_beside
from tests.unit.analysis.builders import RunBuilder, noisy

# As printed in the study: percent of 5.6 by configuration, for the versions matched below.
PRINTED = {
    "mysql-5.7.22": {"default": 89.83, "wmf": 90.68, "insecure": 87.20},
    "mysql-8.0.12": {"default": 103.92, "wmf": 96.51, "insecure": 84.58},
    "mariadb-10.0.38": {"default": 99.66, "wmf": 114.53, "insecure": 98.86},
    "mariadb-10.1.23": {"default": 99.16, "wmf": 113.27, "insecure": 96.00},
    "mariadb-10.2.11": {"default": 97.63, "wmf": 100.86, "insecure": 93.80},
}


def figures(**changes: object) -> dict[tuple[str, str, str], PublishedFigure]:
    """By server, configuration and metric."""
    servers = ["mysql-5.6.24", *PRINTED, "mariadb-10.11.19"]
    builder = RunBuilder(
        {server: noisy(4, 3) for server in servers},
        **{"factors": {"configuration": ["default", "wmf", "insecure"]}, **changes},  # type: ignore[arg-type]
    )
    analysis = judge(builder.build())
    study = published_beside(analysis)
    if study is None:
        return {}
    treatments = {t.id: t for t in analysis.treatments}
    return {
        (
            str(treatments[f.treatment_id].level),
            str(treatments[f.treatment_id].held["configuration"]),
            f.metric.name,
        ): f
        for f in study.figures
    }


def test_ratios_are_the_printed_percentages() -> None:
    found = figures()
    for server, by_configuration in PRINTED.items():
        for configuration, percent in by_configuration.items():
            ratio = found[server, configuration, "throughput"].ratio
            assert ratio is not None
            assert 100 * ratio == pytest.approx(percent, abs=0.02)


def test_rates_and_times_are_of_the_same_rows() -> None:
    found = figures()
    for (server, configuration, metric), figure in found.items():
        if metric == "time":
            rows = figure.value * found[server, configuration, "throughput"].value
            assert rows == pytest.approx(46_741_126, rel=1e-3)


def test_series_are_matched_as_numbers() -> None:
    found = figures()
    assert found["mysql-5.6.24", "wmf", "throughput"].version == "MySQL 5.6.34"
    assert not any(server == "mariadb-10.11.19" for server, _, _ in found)
    note = found["mysql-8.0.12", "wmf", "throughput"].note
    assert note is not None
    assert "utf8" in note


def test_count_holds_for_every_configuration() -> None:
    found = figures()
    values = {found["mysql-5.7.22", c, "count_time"].value for c in ("default", "wmf", "insecure")}
    assert values == {4.81}


def test_without_a_published_base_there_is_no_ratio() -> None:
    found = figures(base="mariadb-10.11.19")
    assert found["mysql-5.7.22", "wmf", "throughput"].ratio is None


def test_another_engine_or_study_has_no_figures() -> None:
    factors = {"configuration": ["default"], "engine": ["MyISAM"]}
    assert figures(factors=factors) == {}
    assert figures(published=None) == {}
    assert figures(published="S99") == {}
