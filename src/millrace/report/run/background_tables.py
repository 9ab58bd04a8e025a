"""Show the background clients of each treatment: the rate they kept, and their latencies."""

from collections.abc import Iterator

from millrace.analysis.compare.background_clients import background_latency
from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.compare.treatment_model import TreatmentAnalysis
from millrace.levels import factor_text, level_value
from millrace.report.common.formatting import MISSING, count_text, known_text, latency_text
from millrace.report.common.tables import Column, Row, Section, Table, text_columns

_PERCENTS = (50, 99)


def background_table(analysis: RunAnalysis) -> Table | None:
    """Return the table of background clients; None where no trial had any."""
    columns = (
        *text_columns(factor_text(analysis.factor), "test"),
        Column("transactions/s"),
        Column("asked"),
        Column("late", drop=1),
        *(Column(f"p{percent:g}") for percent in _PERCENTS),
        Column("longest"),
    )
    sections = (
        Section(group.label, tuple(row for each in group.treatments for row in _rows(each)))
        for group in analysis.groups
    )
    shown = tuple(section for section in sections if section.rows)
    return Table("Background clients", columns, shown) if shown else None


def _rows(treatment: TreatmentAnalysis) -> Iterator[Row]:
    for figures in treatment.background_clients:
        latency = background_latency(treatment.latencies, figures.test)
        cells = (
            level_value(treatment.level),
            figures.test,
            count_text(figures.throughput),
            known_text(figures.rate, count_text),
            f"{figures.late:,}",
            *(map(latency_text, latency.percentiles_s(_PERCENTS)) if latency else [MISSING] * 2),
            latency_text(latency.maximum_s if latency else figures.longest_s),
        )
        yield Row(cells, is_base=treatment.is_base)
