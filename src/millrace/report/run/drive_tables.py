"""Tables of driven clients: latencies, and what a transaction cost in CPU time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millrace.analysis.compare.latencies import Latency
from millrace.analysis.compare.model import Group, RunAnalysis
from millrace.analysis.compare.treatment_model import TreatmentAnalysis
from millrace.levels import factor_text, level_value
from millrace.model.run_spec import Of
from millrace.report.common.formatting import MISSING, count_text, latency_text, percent_text
from millrace.report.common.tables import Column, Row, Section, Table
from millrace.report.run.tables import sections_of
from millrace.report.run.units import level_s

PERCENTS = (50, 95, 99, 99.9)


def latency_table(analysis: RunAnalysis, of: Of) -> Table | None:
    """Return latencies of transactions or statements, merged over all finished trials.

    None where none were measured, and for statements also where each transaction is a single one
    (its latencies are then the transaction's).
    """
    if of == "statement" and not _has_parts(analysis):
        return None
    titles = ["mean", *(f"p{percent:g}" for percent in PERCENTS), "max", "count"]
    sections = tuple(
        Section(group.label, rows)
        for group in analysis.groups
        if (rows := tuple(_latency_rows(group, of)))
    )
    if not sections:
        return None
    columns = (
        Column(factor_text(analysis.factor), numeric=False),
        Column(of, numeric=False, drop=2),
        Column("time", numeric=False),
        *(Column(title, drop=1 if title == "count" else 0) for title in titles),
    )
    return Table(f"Latency of {of}s", columns, sections)


def _has_parts(analysis: RunAnalysis) -> bool:
    return any(
        len({latency.name for latency in t.latencies if latency.of == "statement"}) > 1
        for t in analysis.treatments
    )


def _latency_rows(group: Group, of: Of) -> list[Row]:
    return [
        _latency_row(treatment, latency)
        for treatment in group.treatments
        for latency in treatment.latencies
        if latency.of == of
    ]


def _latency_row(treatment: TreatmentAnalysis, latency: Latency) -> Row:
    cells = (
        level_value(treatment.level),
        latency.name,
        latency.time,
        latency_text(latency.mean_s),
        *map(latency_text, latency.percentiles_s(PERCENTS)),
        latency_text(latency.maximum_s),
        f"{latency.count:,}",
    )
    return Row(cells, is_base=treatment.is_base)


def cost_table(analysis: RunAnalysis) -> Table | None:
    """Return CPU time, switches and buffer pool misses a transaction, as far as measured."""
    driven = [t.driven for t in analysis.treatments if t.driven is not None]
    figures: Sequence[tuple[str, Callable[[TreatmentAnalysis], str]]] = [
        (title, text)
        for title, value, text in (
            ("server CPU", [d.server_s for d in driven], _server_cpu),
            ("client CPU", [d.client_s for d in driven], _client_cpu),
            ("client’s switches", [d.client_switches for d in driven], _switches),
            ("client’s share of the host", [d.client_share for d in driven], _share),
            ("reads missing the buffer pool", [d.missed for d in driven], _missed),
        )
        if any(one is not None for one in value)
    ]
    if not figures:
        return None
    sections = sections_of(
        analysis, lambda t: None if t.driven is None else [text(t) for _, text in figures]
    )
    columns = (
        Column(factor_text(analysis.factor), numeric=False),
        *(Column(title) for title, _ in figures),
    )
    return Table("What a transaction cost", columns, sections)


def _seconds(value: float | None) -> str:
    return MISSING if value is None else latency_text(value)


def _server_cpu(treatment: TreatmentAnalysis) -> str:
    known = treatment.driven.server_s if treatment.driven else None
    return _cpu(treatment, ("server_user_s", "server_system_s"), known)


def _client_cpu(treatment: TreatmentAnalysis) -> str:
    known = treatment.driven.client_s if treatment.driven else None
    return _cpu(treatment, ("load_generator_user_s", "load_generator_system_s"), known)


def _cpu(treatment: TreatmentAnalysis, measured: tuple[str, ...], known: float | None) -> str:
    """Return the level of the metric of this CPU time; without one ``known``, over all trials."""
    for found in treatment.metrics.values():
        if (found.metric.numerator, found.metric.denominator) == (measured, ("transactions",)):
            return _seconds(level_s(found))
    return _seconds(known)


def _switches(treatment: TreatmentAnalysis) -> str:
    switches = treatment.driven.client_switches if treatment.driven else None
    return MISSING if switches is None else count_text(switches)


def _share(treatment: TreatmentAnalysis) -> str:
    share = treatment.driven.client_share if treatment.driven else None
    return MISSING if share is None else percent_text(share)


def _missed(treatment: TreatmentAnalysis) -> str:
    missed = treatment.driven.missed if treatment.driven else None
    return MISSING if missed is None else f"{missed * 100:.3g} %"
