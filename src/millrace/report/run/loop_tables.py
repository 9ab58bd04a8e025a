"""Show the loops of trials that drove their clients again and again on the same tables."""

from collections.abc import Callable, Sequence

from millrace.analysis.compare.model import Group, RunAnalysis
from millrace.analysis.compare.published import PublishedStudy, published_comparison
from millrace.analysis.compare.treatments import LoopMeans, TreatmentAnalysis, shown
from millrace.levels import factor_text, level_text
from millrace.report.common.charts import MOST_LINES, Line, LineChart, Mark, Tick, linear_ticks
from millrace.report.common.formatting import bytes_text, grouped_text, known_text
from millrace.report.common.tables import Column, Row, Table, plain_table, text_columns
from millrace.report.run.tables import sections_of

LOOPS_TITLE = "Throughput by loop, transactions/s"
COLD_SIGN = "*"
_MOST_POINTS = 500  # of a line, apart from loops with marks


def loop_tables(analysis: RunAnalysis) -> list[Table]:
    """Return the table of the loops, and that of the disk space at their ends, where there are any.

    A loop before which a server started again has a star.
    """
    most = max(
        (len(each.loops) for group in analysis.groups for each in group.treatments), default=0
    )
    if not most:
        return []
    columns = (
        *text_columns(factor_text(analysis.factor)),
        *(Column(f"loop {number}") for number in shown(most)),
    )

    def throughput(treatment: TreatmentAnalysis) -> Sequence[str] | None:
        return _cells(treatment, shown(most), _throughput_text)

    def allocated(treatment: TreatmentAnalysis) -> Sequence[str] | None:
        return _cells(
            treatment, shown(most), lambda loop: known_text(loop.allocated_bytes, bytes_text)
        )

    study = published_comparison(analysis)
    return [
        Table(LOOPS_TITLE, columns, sections_of(analysis, throughput)),
        *([_hours_table(study)] if study is not None and study.hours else []),
        Table("Data directory at the end of a loop", columns, sections_of(analysis, allocated)),
    ]


def loop_charts(groups: Sequence[Group], factor: str) -> tuple[LineChart, ...]:
    """Return a chart of the throughput by loop for each group of few enough treatments."""
    found = []
    for group in groups:
        treatments = [each for each in group.treatments if len(each.loops) > 1]
        if treatments and len(treatments) <= MOST_LINES:
            found.append(_chart(group, treatments, factor))
    return tuple(found)


def _hours_table(study: PublishedStudy) -> Table:
    numbers = sorted({number for each in study.hours for number in each.values})
    columns = (*text_columns("server"), *(Column(f"hour {number}") for number in numbers))
    rows = (
        Row((each.name, *(known_text(each.values.get(number), grouped_text) for number in numbers)))
        for each in study.hours
    )
    return plain_table(f"Published ({study.name}): operations/s by the hour", columns, rows)


def _cells(
    treatment: TreatmentAnalysis, numbers: Sequence[int], text: Callable[[LoopMeans], str]
) -> Sequence[str] | None:
    if not treatment.loops:
        return None
    by_number = {each.loop: each for each in treatment.loops}
    return [known_text(by_number.get(number), text) for number in numbers]


def _throughput_text(loop: LoopMeans) -> str:
    return f"{grouped_text(loop.throughput)}{COLD_SIGN if loop.restarted_cold else ''}"


def _chart(group: Group, treatments: Sequence[TreatmentAnalysis], factor: str) -> LineChart:
    most = max(len(each.loops) for each in treatments)
    highest = max(loop.throughput for each in treatments for loop in each.loops) or 1.0
    numbers = shown(most)
    return LineChart(
        heading=group.label,
        description=f"{group.label}: throughput by loop",
        across=tuple(Tick(_x(number, most), f"{number}") for number in numbers),
        up=tuple(Tick(100 - 100 * at / highest, grouped_text(at)) for at in linear_ticks(highest)),
        band=None,
        one=None,
        lines=tuple(
            _line(number, each, factor, most=most, highest=highest)
            for number, each in enumerate(treatments)
        ),
    )


def _line(
    number: int, treatment: TreatmentAnalysis, factor: str, *, most: int, highest: float
) -> Line:
    label = level_text(factor, treatment.level)
    stride, marked = -(-len(treatment.loops) // _MOST_POINTS), shown(most)
    loops = [
        each for at, each in enumerate(treatment.loops) if at % stride == 0 or each.loop in marked
    ]
    points = {
        each.loop: (_x(each.loop, most), 100 - 100 * each.throughput / highest) for each in loops
    }
    marks = tuple(
        Mark(
            *points[each.loop], None, None,
            f"{label}, loop {each.loop}: {_throughput_text(each)} transactions/s",
        )
        for each in loops
        if each.loop in marked
    )  # fmt: skip
    return Line(number, label, marks, (" ".join(f"{x:.2f},{y:.2f}" for x, y in points.values()),))


def _x(loop: int, most: int) -> float:
    return 100 * (loop - 1) / (most - 1) if most > 1 else 50.0
