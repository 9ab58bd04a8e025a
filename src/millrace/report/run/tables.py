"""The tables of a run: results, ratios, published figures, sizes, steps, trials, servers."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import Comparison, RunAnalysis
from millrace.analysis.compare.published import PublishedFigure, PublishedStudy
from millrace.analysis.compare.treatments import MetricSummary, TreatmentAnalysis
from millrace.levels import factor_text, level_text, level_value
from millrace.model import measurements
from millrace.report.common.formatting import (
    MISSING,
    bytes_text,
    count_text,
    known_text,
    percent_of_base_text,
    percent_text,
    range_text,
    ratio_text,
    seconds_text,
    value_text,
)
from millrace.report.common.tables import Column, Row, Section, Table, plain_table, text_columns
from millrace.report.run.sentences import verdict_text


def sections_of(
    analysis: RunAnalysis, cells: Callable[[TreatmentAnalysis], Sequence[str] | None]
) -> tuple[Section, ...]:
    """Return one section per group, with a row for each treatment that has cells."""

    def rows(treatment: TreatmentAnalysis) -> Iterator[Sequence[str]]:
        if (found := cells(treatment)) is not None:
            yield found

    return sections_of_rows(analysis, rows)


def sections_of_rows(
    analysis: RunAnalysis, rows: Callable[[TreatmentAnalysis], Iterable[Sequence[str]]]
) -> tuple[Section, ...]:
    """Return one section per group, with each treatment's rows after its level."""
    sections = (
        Section(
            group.label,
            tuple(
                Row((level_value(treatment.level), *cells), is_base=treatment.is_base)
                for treatment in group.treatments
                for cells in rows(treatment)
            ),
        )
        for group in analysis.groups
    )
    return tuple(section for section in sections if section.rows)


def results_table(analysis: RunAnalysis, metric: Metric, time: Metric | None) -> Table:
    """Return the table of results; ``time`` is the time metric of a rate, which has the spread."""
    spread_of = time or metric
    unit = spread_of.unit
    columns = (
        *text_columns(factor_text(analysis.factor)), Column(f"average, {unit}", drop=1),
        Column(f"median, {unit}", drop=3), *((Column(metric.unit),) if time is not None else ()),
        Column("% of base"), Column(f"{analysis.confidence * 100:g} % interval"),
        Column("CV", drop=2), Column(f"range, {unit}", drop=4), Column("trials", drop=5),
        *text_columns("verdict"),
    )  # fmt: skip
    sections = []
    for group in analysis.groups:
        comparisons = {each.candidate_id: each for each in group.in_metric(metric)}
        rows = (_result_row(t, comparisons.get(t.id), metric, time) for t in group.treatments)
        sections.append(Section(group.label, tuple(rows)))
    return Table(metric.title, columns, tuple(sections))


def _result_row(
    treatment: TreatmentAnalysis, comparison: Comparison | None, metric: Metric, time: Metric | None
) -> Row:
    spread_of = time or metric
    spread = treatment.metrics.get(spread_of.name)
    rate = () if time is None else (_level(treatment.metrics.get(metric.name)),)
    verdict = None
    if comparison is not None:
        verdict = verdict_text(comparison)
    elif treatment.failed and not treatment.finished:
        verdict = "failed"
    percent, interval = _percent_of_base(treatment, comparison)
    own = None if spread is None else spread.summary
    cells = (
        level_value(treatment.level),
        _level(spread),
        known_text(spread, lambda found: value_text(found.summary.median, found.metric)),
        *rate,
        percent,
        interval,
        known_text(None if own is None else own.cv, percent_text),
        range_text(own.range, own.mean, spread_of) if own is not None and own.n >= 2 else MISSING,
        trials_text(treatment),
        verdict or "base",
    )
    return Row(cells, verdict, treatment.is_base)


def _level(found: MetricSummary | None) -> str:
    return known_text(found, lambda each: value_text(each.level, each.metric))


def _percent_of_base(
    treatment: TreatmentAnalysis, comparison: Comparison | None
) -> tuple[str, str]:
    if comparison is None:
        return ("100.0" if treatment.finished else MISSING), MISSING
    estimate = comparison.estimate
    if estimate is None:
        return MISSING, MISSING
    percent = percent_of_base_text(estimate.ratio)
    if estimate.low is None or estimate.high is None:
        return percent, MISSING
    interval = f"{percent_of_base_text(estimate.low)} to {percent_of_base_text(estimate.high)}"
    return percent, interval


def trials_text(treatment: TreatmentAnalysis) -> str:
    """Return text such as ``5``, or ``4 of 5`` where some failed or have not run yet."""
    if treatment.finished == treatment.planned:
        return str(treatment.planned)
    return f"{treatment.finished} of {treatment.planned}"


def ratios_table(analysis: RunAnalysis, metric: Metric) -> Table:
    """Return each comparison's ratio with its interval, blocks, and what the blocks can see."""
    titles = ("ratio", "low", "high", "blocks", "detectable", "blocks needed")
    columns = (*text_columns("candidate", "base"), *map(Column, titles), *text_columns("verdict"))
    sections = tuple(
        Section(group.label, tuple(_ratio_row(c, analysis.factor) for c in group.in_metric(metric)))
        for group in analysis.groups
    )
    return Table(metric.title, columns, sections)


def _ratio_row(comparison: Comparison, factor: str) -> Row:
    estimate = comparison.estimate
    bounds = (estimate.ratio, estimate.low, estimate.high) if estimate else (None, None, None)
    cells = (
        level_text(factor, comparison.candidate),
        level_text(factor, comparison.base),
        *(known_text(bound, ratio_text) for bound in bounds),
        str(comparison.n_blocks),
        known_text(comparison.minimum_detectable, percent_text),
        known_text(comparison.blocks_wanted, "{:,}".format),
        verdict_text(comparison),
    )
    return Row(cells, verdict_text(comparison))


def published_table(analysis: RunAnalysis, study: PublishedStudy, metric: Metric) -> Table | None:
    """Return published and measured values of one metric; None if no treatment matches."""
    figures = {f.treatment_id: f for f in study.figures if f.metric.name == metric.name}
    ratios = {c.candidate_id: c.estimate for c in analysis.comparisons(metric)}
    valued = any(figure.value is not None for figure in figures.values())

    def cells(treatment: TreatmentAnalysis) -> Sequence[str] | None:
        figure, estimate = figures.get(treatment.id), ratios.get(treatment.id)
        if figure is None:
            return None
        ours = 1.0 if treatment.is_base and treatment.finished else None
        ours = estimate.ratio if estimate is not None else ours
        return (
            _level(treatment.metrics.get(metric.name)),
            known_text(ours, percent_of_base_text),
            figure.version + (f" ({figure.note})" if figure.note else ""),
            *((known_text(figure.value, lambda v: value_text(v, metric)),) if valued else ()),
            _published_percent(figure),
            figure.relative_to or MISSING,
        )

    sections = sections_of(analysis, cells)
    if not sections:
        return None
    columns = (
        *text_columns(factor_text(analysis.factor)),
        Column(f"measured here, {metric.unit}", drop=2), Column("% of base"),
        *text_columns(f"published ({study.name})"),
        *((Column(f"published, {metric.unit}", drop=1),) if valued else ()),
        Column("published, %"), *text_columns("of"),
    )  # fmt: skip
    return Table(metric.title, columns, sections)


def _published_percent(figure: PublishedFigure) -> str:
    ends = [each for each in (figure.ratio, figure.ratio_high) if each is not None]
    return " to ".join(percent_of_base_text(each) for each in ends) or MISSING


def sizes_table(analysis: RunAnalysis) -> Table | None:
    """Return mean sizes on disk (allocated and apparent) after a clean stop, and the rows."""
    if not any(treatment.sizes for treatment in analysis.treatments):
        return None
    titles = (
        "rows", "allocated", "a row", "apparent", "data directory, allocated", "apparent",
    )  # fmt: skip
    columns = (*text_columns(factor_text(analysis.factor)), *map(Column, titles))
    return Table("Size on disk", columns, sections_of(analysis, _sizes_cells))


def _sizes_cells(treatment: TreatmentAnalysis) -> Sequence[str]:
    rows, allocated = treatment.table_rows, treatment.sizes.get(measurements.TABLE_ALLOCATED_BYTES)
    a_row = None if not rows or allocated is None else f"{allocated / rows:.1f} bytes"
    return [
        MISSING if rows is None else count_text(rows),
        _bytes_cell(treatment, measurements.TABLE_ALLOCATED_BYTES),
        a_row or MISSING,
        _bytes_cell(treatment, measurements.TABLE_APPARENT_BYTES),
        _bytes_cell(treatment, measurements.DATA_DIR_ALLOCATED_BYTES),
        _bytes_cell(treatment, measurements.DATA_DIR_APPARENT_BYTES),
    ]


def _bytes_cell(treatment: TreatmentAnalysis, name: str) -> str:
    return bytes_text(treatment.sizes[name]) if name in treatment.sizes else MISSING


def table_files_table(analysis: RunAnalysis) -> Table | None:
    """Return the allocated size and the length of each table's files; None for a single table."""
    names = (name for treatment in analysis.treatments for name in treatment.sizes)
    tables = sorted(
        {table for name in names if (table := measurements.table_of_files(name)) is not None}
    )
    if not tables:
        return None

    def cells(treatment: TreatmentAnalysis) -> Sequence[str]:
        both = (measurements.files_bytes(table) for table in tables)
        return [
            f"{_bytes_cell(treatment, allocated)} of {_bytes_cell(treatment, apparent)}"
            for apparent, allocated in both
        ]

    columns = (*text_columns(factor_text(analysis.factor)), *map(Column, tables))
    return Table("Each table: allocated of apparent", columns, sections_of(analysis, cells))


def steps_table(analysis: RunAnalysis) -> Table:
    """Return mean seconds of each step of a trial."""
    names = list(dict.fromkeys(step for t in analysis.treatments for step in t.steps))

    def cells(treatment: TreatmentAnalysis) -> Sequence[str]:
        times = treatment.steps
        return [seconds_text(times[name]) if name in times else MISSING for name in names]

    columns = (*text_columns(factor_text(analysis.factor)), *map(Column, names))
    return Table("Time of each step, s (mean)", columns, sections_of(analysis, cells))


def trials_table(analysis: RunAnalysis, metric: Metric) -> Table:
    """Return every trial's value, one column per block, and how long the sender waited."""
    blocks = range(analysis.run.blocks)
    waits = any(treatment.generator_wait is not None for treatment in analysis.treatments)
    titles = [f"block {block + 1}" for block in blocks]
    titles += ["waited for rows, % of load"] if waits else []
    columns = (*text_columns(factor_text(analysis.factor)), *map(Column, titles))

    def cells(treatment: TreatmentAnalysis) -> Sequence[str]:
        summary = treatment.metrics.get(metric.name)
        values = {trial.block: trial.value for trial in summary.trials} if summary else {}
        found = [value_text(values[b], metric) if b in values else MISSING for b in blocks]
        wait = known_text(treatment.generator_wait, lambda share: f"{share * 100:.2f}")
        return [*found, wait] if waits else found

    return Table(f"Every trial, {metric.unit}", columns, sections_of(analysis, cells))


def provenance_table(analysis: RunAnalysis) -> Table:
    """Return the origin of each server's build and how it was made."""
    keys = ("source", "compiler", "allocator", "libc", "async_io", "symbols")
    columns = text_columns("server", "version", *(key.replace("_", " ") for key in keys))
    rows = []
    for server in analysis.servers:
        build = server.build
        source = "attached: a running server that is not ours" if build.attached else None
        texts = [source or build.source or MISSING]
        if build.note:
            texts[0] += f" ({build.note})"
        texts += [str(getattr(build, key) or MISSING) for key in keys[1:]]
        rows.append(Row((server.name, server.version_reported, *texts)))
    return plain_table("Servers", columns, rows)


def options_table(analysis: RunAnalysis) -> Table | None:
    """Return options not effective or left out, if any; treatments of one fate share a row."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for treatment in analysis.treatments:
        for instance in treatment.instances:
            for m in instance.mismatches:
                fate = (m.name, _shown(m.asked), _shown(m.effective), m.layer)
                alike.setdefault(fate, []).append(treatment.label)
            for o in instance.left_out:
                fate = (o.name, _shown(o.value), f"left out: {o.left_out}", o.layer)
                alike.setdefault(fate, []).append(treatment.label)
    if not alike:
        return None
    rows = [Row((*fate, ", ".join(labels))) for fate, labels in sorted(alike.items())]
    columns = text_columns("option", "asked", "effective", "layer", "in")
    return plain_table("Asked and effective", columns, rows)


def _shown(value: str | None) -> str:
    return "(set)" if value is None else value or "(empty)"
