"""Show the background clients of each treatment: the rate they kept, and their latencies."""

from collections.abc import Iterator, Sequence

from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.compare.treatments import TreatmentAnalysis, background_latency
from millrace.levels import factor_text
from millrace.report.common.formatting import MISSING, count_text, known_text, latency_text
from millrace.report.common.tables import Column, Table, text_columns
from millrace.report.run.tables import sections_of_rows

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
    sections = sections_of_rows(analysis, _rows)
    return Table("Background clients", columns, sections) if sections else None


def _rows(treatment: TreatmentAnalysis) -> Iterator[Sequence[str]]:
    for figures in treatment.background_clients:
        latency = background_latency(treatment.latencies, figures.test)
        yield (
            figures.test,
            count_text(figures.throughput),
            known_text(figures.rate, count_text),
            f"{figures.late:,}",
            *(map(latency_text, latency.percentiles_s(_PERCENTS)) if latency else [MISSING] * 2),
            latency_text(latency.maximum_s if latency else figures.longest_s),
        )
