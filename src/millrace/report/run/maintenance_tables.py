"""Show the time of maintenance statements, and the clients before, during and after them."""

from collections.abc import Iterator, Sequence

from millrace.analysis.compare.metrics import Latency
from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.compare.treatments import MaintenanceFigures, PartFigures, TreatmentAnalysis
from millrace.levels import factor_text
from millrace.report.common.formatting import (
    MISSING,
    grouped_text,
    known_text,
    latency_text,
    percent_text,
)
from millrace.report.common.tables import Column, Table, text_columns
from millrace.report.run.tables import sections_of, sections_of_rows

_PERCENTS = (50, 99)


def maintenance_tables(analysis: RunAnalysis) -> list[Table]:
    """Return the tables of maintenance; none where no trial had any."""
    return [
        table for table in (_statements_table(analysis), _parts_table(analysis)) if table.sections
    ]


def _statements_table(analysis: RunAnalysis) -> Table:
    def cells(treatment: TreatmentAnalysis) -> Sequence[str] | None:
        found = treatment.maintenance
        if found is None:
            return None
        return (
            latency_text(found.statement_s),
            known_text(found.removal_s, latency_text),
            known_text(found.own_s, latency_text),
            known_text(_removal_share(found), percent_text),
            latency_text(found.longest_s),
            f"{found.statements:,}",
        )

    titles = (
        "mean", "removing files", "server’s own work", "share of files",
        "longest", "statements",
    )  # fmt: skip
    columns = (*text_columns(factor_text(analysis.factor)), *map(Column, titles))
    return Table("Time of the maintenance statements", columns, sections_of(analysis, cells))


def _removal_share(found: MaintenanceFigures) -> float | None:
    if found.removal_s is None or found.own_s is None or not found.removal_s + found.own_s:
        return None
    return found.removal_s / (found.removal_s + found.own_s)


def _parts_table(analysis: RunAnalysis) -> Table:
    columns = (
        *text_columns(factor_text(analysis.factor), "part"),
        Column("transactions/s"),
        Column("of before"),
        *(Column(f"p{percent:g}") for percent in _PERCENTS),
        Column("longest"),
        Column("count", drop=1),
    )
    title = "Clients before, during and after maintenance"
    return Table(title, columns, sections_of_rows(analysis, _part_rows))


def _part_rows(treatment: TreatmentAnalysis) -> Iterator[Sequence[str]]:
    if treatment.maintenance is None:
        return
    before = treatment.maintenance.parts[0].throughput
    for figures in treatment.maintenance.parts:
        latency = _latency(treatment, figures)
        throughput = figures.throughput
        share = throughput / before if throughput is not None and before else None
        yield (
            figures.part,
            known_text(throughput, grouped_text),
            known_text(share, percent_text),
            *(map(latency_text, latency.percentiles_s(_PERCENTS)) if latency else [MISSING] * 2),
            latency_text(latency.maximum_s) if latency else MISSING,
            f"{figures.transactions:,.0f}",
        )


def _latency(treatment: TreatmentAnalysis, figures: PartFigures) -> Latency | None:
    """Return the response times of a part, in a closed loop the service times."""
    found = {each.time: each for each in treatment.latencies if each.of == figures.part}
    return found.get("response") or found.get("service")
