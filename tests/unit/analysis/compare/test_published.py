from collections.abc import Mapping
from typing import Any

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.published import PublishedFigure, published_comparison
from millrace.report.run.tables import published_table
from millrace.studies.lookup import Conditions, load_study, study_names
from tests.support.builders import RunBuilder, noisy
from tests.support.known import known
from tests.support.query_runs import QueryRun

# As published in the study: percent of 5.6 by configuration, for the versions matched below.
PRINTED = {
    "mysql-5.7.22": {"default": 89.83, "wmf": 90.68, "insecure": 87.20},
    "mysql-8.0.12": {"default": 103.92, "wmf": 96.51, "insecure": 84.58},
    "mariadb-10.0.38": {"default": 99.66, "wmf": 114.53, "insecure": 98.86},
    "mariadb-10.1.23": {"default": 99.16, "wmf": 113.27, "insecure": 96.00},
    "mariadb-10.2.11": {"default": 97.63, "wmf": 100.86, "insecure": 93.80},
}


def figures(**changes: object) -> dict[tuple[str, str, str], PublishedFigure]:
    """Return published figures by server, configuration and metric."""
    servers = ["mysql-5.6.24", *PRINTED, "mariadb-10.11.19"]
    builder = RunBuilder(
        {server: noisy(4, 3) for server in servers},
        **{"factors": {"configuration": ["default", "wmf", "insecure"]}, **changes},  # type: ignore[arg-type]
    )
    analysis = compare_run(builder.build())
    study = published_comparison(analysis)
    if study is None:
        return {}
    treatments = {t.id: t for t in analysis.treatments}
    return {
        (
            str(treatments[f.treatment_id].level),
            str(treatments[f.treatment_id].fixed_factors["configuration"]),
            f.metric.name,
        ): f
        for f in study.figures
    }


def test_ratios_are_the_printed_percentages() -> None:
    found = figures()
    for server, by_configuration in PRINTED.items():
        for configuration, percent in by_configuration.items():
            ratio = known(found[server, configuration, "throughput"].ratio)
            assert 100 * ratio == pytest.approx(percent, abs=0.02)


def test_rates_and_times_are_of_the_same_rows() -> None:
    found = figures()
    for (server, configuration, metric), figure in found.items():
        if metric == "time":
            rate = known(found[server, configuration, "throughput"].value)
            assert known(figure.value) * rate == pytest.approx(46_741_126, rel=1e-3)


def test_series_are_matched_as_numbers() -> None:
    found = figures()
    assert found["mysql-5.6.24", "wmf", "throughput"].version == "MySQL 5.6.34"
    assert not any(server == "mariadb-10.11.19" for server, _, _ in found)
    note = known(found["mysql-8.0.12", "wmf", "throughput"].note)
    assert "utf8" in note


def test_count_holds_for_every_configuration() -> None:
    found = figures()
    values = {found["mysql-5.7.22", c, "count_time"].value for c in ("default", "wmf", "insecure")}
    assert values == {4.81}


def test_figures_of_plain_tables_are_not_beside_compressed_ones() -> None:
    def factors(compression: str) -> dict[str, list[str]]:
        return {"configuration": ["wmf"], "compression": [compression]}

    assert figures(factors=factors("none"))
    assert not figures(factors=factors("row"))


def test_without_a_published_base_there_is_no_ratio() -> None:
    found = figures(base="mariadb-10.11.19")
    assert found["mysql-5.7.22", "wmf", "throughput"].ratio is None


def of_cells(
    study: str, base: str, parameters: Mapping[str, object] | None = None, **changes: Any
) -> dict[tuple[str, ...], PublishedFigure]:
    """Return values by server and the varied fixed levels."""
    run = QueryRun(
        ("mysql-5.5.34", "mysql-5.6.24", "mysql-5.7.22"), base=base, blocks=3, published=study,
        parameters=parameters or {}, **changes,
    )  # fmt: skip
    analysis = compare_run(run.build())
    found = known(published_comparison(analysis))
    labels = {t.id: tuple(t.label.split(" · ")) for t in analysis.treatments}
    return {labels[figure.treatment_id]: figure for figure in found.figures}


UPDATES: dict[str, Any] = {
    "tests": ("update-indexed", "update-unindexed"),
    "clients": (1, 4, 32),
    "factors": {"engine": ["InnoDB", "MEMORY"]},
}


def test_published_response_time_is_converted_to_throughput() -> None:
    found = of_cells("S3", "mysql-5.5.34", **UPDATES)
    figure = found["mysql-5.7.22", "InnoDB", "update-indexed", "clients 1"]
    assert (figure.value, figure.relative_to) == (None, "MySQL 5.0.85")
    assert figure.ratio == pytest.approx(1 / 3.8)
    older = found["mysql-5.6.24", "InnoDB", "update-indexed", "clients 1"]
    assert (older.version, older.relative_to) == ("MySQL 5.6.21", "MySQL 5.0.85")
    assert older.ratio == pytest.approx(1 / 1.43)


def test_figures_of_one_reference_are_related_to_the_base_s() -> None:
    found = of_cells("S3", "mysql-5.6.24", **UPDATES)
    figure = found["mysql-5.7.22", "InnoDB", "update-indexed", "clients 1"]
    assert figure.relative_to == "MySQL 5.6.21"
    assert figure.ratio == pytest.approx(1.43 / 3.8)
    assert found["mysql-5.6.24", "InnoDB", "update-indexed", "clients 1"].ratio == 1
    alone = found["mysql-5.7.22", "InnoDB", "update-indexed", "clients 4"]
    assert alone.relative_to == "MySQL 5.0.85", "the base has no figure there"


def test_contradictory_cells_are_given_as_such() -> None:
    figure = of_cells("S3", "mysql-5.6.24", **UPDATES)[
        "mysql-5.7.22", "MEMORY", "update-indexed", "clients 32"
    ]
    assert (figure.value, figure.ratio, figure.ratio_high) == (None, None, None)
    assert "contradictory" in known(figure.note)


def test_the_binary_log_is_the_one_that_was_effective() -> None:
    one = ("mysql-5.7.22", "InnoDB", "update-indexed", "clients 1")
    on = of_cells("S3", "mysql-5.5.34", variables={"log_bin": "ON"}, **UPDATES)[one]
    assert on.ratio == pytest.approx(1 / 4.0)


def test_a_range_stays_a_range() -> None:
    found = of_cells(
        "S3", "mysql-5.5.34", tests=("range-pk", "range-covering"), clients=(1, 4),
        factors={"limit": [10, 1000]},
    )  # fmt: skip
    figure = found["mysql-5.7.22", "range-pk", "clients 1", "limit 10"]
    assert figure.ratio == pytest.approx(1 / 1.63)
    assert figure.ratio_high == pytest.approx(1 / 1.49)
    assert not any("clients 4" in labels for labels in found)


@pytest.mark.parametrize(("fits", "ratio"), [("cached", 1 / 1.47), ("io_bound", 0.9)])
def test_parameters_choose_the_cell_too(fits: str, ratio: float) -> None:
    found = of_cells(
        "S2", "mysql-5.5.34", {"cache_mode": fits}, tests=("update",), clients=(1, 8),
        factors={"secondary_index": ["k"]},
    )  # fmt: skip
    figure = found["mysql-5.7.22", "clients 1"]
    assert figure.ratio == pytest.approx(ratio)


def test_published_comparisons_stand_beside_the_measured_ones() -> None:
    analysis = compare_run(
        QueryRun(
            ("mysql-5.6.24", "mysql-5.7.22"), UPDATES["tests"], (1, 4, 32), 3, published="S3",
        ).build()
    )  # fmt: skip
    study = known(published_comparison(analysis))
    table = known(published_table(analysis, study, analysis.headline))
    rows = [row.cells for section in table.sections for row in section.rows]
    assert ("37.6", "MySQL 5.6.21") in [row[-2:] for row in rows]
    assert not any("published, transactions/s" in column.title for column in table.columns)


def test_quotients_of_linkbench_are_those_of_its_hours() -> None:
    factors = {"compression": ["row", "page-zlib"], "partitions": [0, 16]}
    found = of_cells("S5", "mysql-5.6.24", tests=("linkbench",), clients=(20,), factors=factors)
    ratios = {labels[2:]: (each.ratio, each.ratio_high) for labels, each in found.items()}
    assert set(ratios.values()) == {(0.93, 0.94), (0.74, 0.81)}
    assert all("page-zlib" in " ".join(labels) for labels in found)


def test_drop_database_after_linkbench_stands_beside_the_published_one() -> None:
    study = known(load_study("S5"))
    found = {}
    for level in ("row", "page-lz4"):
        conditions = Conditions("mysql", "5.7.22", {"compression": level}, {"drop_after": "on"}, {})
        figure = study.find("drop_time", conditions)
        found[level] = None if figure is None else figure.ratios
    assert found == {"row": (1.0, 1.0), "page-lz4": (43.2, 43.2)}


@pytest.mark.parametrize(("gtid_mode", "ratio"), [("ON", 0.69), ("OFF", 1.07), ("", None)])
def test_inserts_are_compared_by_the_setting_that_was_published(
    gtid_mode: str, ratio: float | None
) -> None:
    study = known(load_study("insert-benchmark"))
    conditions = Conditions("mysql", "9.7.4", {"test": "l.i1"}, {}, {"gtid_mode": gtid_mode})
    figure = study.find("throughput", conditions)
    assert (figure.ratios if figure else None) == ((ratio, ratio) if ratio else None)


def test_every_study_can_be_named() -> None:
    assert study_names() == ("S1", "S2", "S3", "S5", "insert-benchmark")


def test_another_engine_or_study_has_no_figures() -> None:
    factors = {"configuration": ["default"], "engine": ["MyISAM"]}
    assert figures(factors=factors) == {}
    assert figures(published=None) == {}
    assert figures(published="S99") == {}
