"""Tables of driven clients: latencies, costs, steady states, background, maintenance, loops."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from millrace.analysis.compare import treatments
from millrace.analysis.compare.metrics import Latency
from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.compare.published import PublishedStudy, published_comparison
from millrace.analysis.steady.policy import reasons
from millrace.analysis.steady.steadiness import State
from millrace.levels import factor_text, level_value
from millrace.model.run_spec import Of
from millrace.report.common.formatting import (
    MISSING,
    bytes_text,
    count_text,
    grouped_text,
    known_text,
    latency_text,
    percent_text,
)
from millrace.report.common.tables import Column, Row, Section, Table, plain_table, text_columns
from millrace.report.run.tables import sections_of, sections_of_rows
from millrace.report.run.units import level_s

PERCENTS = (50, 95, 99, 99.9)
_FEW_PERCENTS = (50, 99)
# The title of each cost, its name in DriveConditions, and its text.
_COSTS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("server CPU", "server_s", latency_text),
    ("client CPU", "client_s", latency_text),
    ("client’s switches", "client_switches", count_text),
    ("client’s share of the host", "client_share", percent_text),
    ("reads missing the buffer pool", "missed", lambda share: f"{share * 100:.3g} %"),
)
_CPU_TIMES = {
    "server_s": ("server_user_s", "server_system_s"),
    "client_s": ("load_generator_user_s", "load_generator_system_s"),
}
LOOPS_TITLE = "Throughput by loop, transactions/s"
COLD_SIGN = "*"


def driven_tables(analysis: RunAnalysis) -> list[Table]:
    """Return the tables of driven clients that every format of the report has."""
    of_clients = (
        background_table(analysis),
        latency_table(analysis, "transaction"),
        cost_table(analysis),
    )
    return [*loop_tables(analysis), *maintenance_tables(analysis), *filter(None, of_clients)]


def latency_table(analysis: RunAnalysis, of: Of) -> Table | None:
    """Return latencies of transactions or statements, merged over all finished trials.

    None where none were measured, and for statements also where each transaction is a single one
    (its latencies are then the transaction's).
    """
    names = [{each.name for each in t.latencies if each.of == of} for t in analysis.treatments]
    if of == "statement" and not any(len(each) > 1 for each in names):
        return None
    titles = ["mean", *(f"p{percent:g}" for percent in PERCENTS), "max", "count"]
    sections = []
    for group in analysis.groups:
        found = [(t, each) for t in group.treatments for each in t.latencies if each.of == of]
        if found:
            sections.append(Section(group.label, tuple(_latency_row(*each) for each in found)))
    if not sections:
        return None
    columns = (
        *text_columns(factor_text(analysis.factor)),
        Column(of, numeric=False, drop=2),
        *text_columns("time"),
        *(Column(title, drop=1 if title == "count" else 0) for title in titles),
    )
    return Table(f"Latency of {of}s", columns, tuple(sections))


def _latency_row(treatment: treatments.TreatmentAnalysis, latency: Latency) -> Row:
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
    costs = [each for each in _COSTS if any(getattr(d, each[1]) is not None for d in driven)]
    if not costs:
        return None

    def cells(treatment: treatments.TreatmentAnalysis) -> list[str] | None:
        if treatment.driven is None:
            return None
        return [known_text(_cost(treatment, name), text) for _, name, text in costs]

    titles = map(Column, (title for title, _, _ in costs))
    columns = (*text_columns(factor_text(analysis.factor)), *titles)
    return Table("What a transaction cost", columns, sections_of(analysis, cells))


def steady_table(analysis: RunAnalysis) -> Table | None:
    """Count the steady trials of each treatment; None where no trial recorded its seconds."""
    sections = sections_of(analysis, _steady_cells)
    if not sections:
        return None
    columns = (
        *text_columns(factor_text(analysis.factor)), Column("steady"), Column("not steady"),
        Column("too short to tell", drop=1), Column("seconds", drop=1), Column("warm-up, s"),
        Column("warmed up after, s"), Column("slowest second", drop=1),
        *text_columns("not steady because"),
    )  # fmt: skip
    return Table("Steady state", columns, sections)


def _steady_cells(treatment: treatments.TreatmentAnalysis) -> Sequence[str] | None:
    known: tuple[State, ...] = ("steady", "unsteady", "too short to tell")
    recorded = [
        trial for trial in treatment.steadiness if trial.state in known or trial.slowest is not None
    ]
    if not recorded:
        return None
    states = Counter(trial.state for trial in recorded)
    found = [trial.found_s for trial in recorded if trial.found_s is not None]
    slowest = [trial.slowest for trial in recorded if trial.slowest is not None]
    own = [trial.warmup_s for trial in recorded if trial.warmup_s is not None]
    return (
        *(str(states[state]) for state in known),
        f"{median(trial.seconds for trial in recorded):g}",
        f"{median(own):.1f}" if own else MISSING,
        f"{median(found):.1f}" if found else MISSING,
        count_text(min(slowest)) if slowest else MISSING,
        "; ".join(reasons(treatment.unsteady_trials)) or MISSING,
    )


def _cost(treatment: treatments.TreatmentAnalysis, name: str) -> float | None:
    """Return the level of the metric of this CPU time, if any, else the figure over all trials."""
    wanted = (_CPU_TIMES.get(name), ("transactions",))
    for found in treatment.metrics.values():
        if (found.metric.numerator, found.metric.denominator) == wanted:
            return level_s(found)
    cost: float | None = getattr(treatment.driven, name)
    return cost


def background_table(analysis: RunAnalysis) -> Table | None:
    """Return the table of background clients; None where no trial had any."""
    columns = (
        *text_columns(factor_text(analysis.factor), "test"),
        Column("transactions/s"),
        Column("asked"),
        Column("late", drop=1),
        *(Column(f"p{percent:g}") for percent in _FEW_PERCENTS),
        Column("longest"),
    )
    sections = sections_of_rows(analysis, _background_rows)
    return Table("Background clients", columns, sections) if sections else None


def _background_rows(treatment: treatments.TreatmentAnalysis) -> Iterator[Sequence[str]]:
    for figures in treatment.background_clients:
        latency = treatments.background_latency(treatment.latencies, figures.test)
        yield (
            figures.test,
            count_text(figures.throughput),
            known_text(figures.rate, count_text),
            f"{figures.late:,}",
            *(
                map(latency_text, latency.percentiles_s(_FEW_PERCENTS))
                if latency
                else [MISSING] * 2
            ),
            latency_text(latency.maximum_s if latency else figures.longest_s),
        )


def maintenance_tables(analysis: RunAnalysis) -> list[Table]:
    """Return the tables of maintenance; none where no trial had any."""
    return [
        table for table in (_statements_table(analysis), _parts_table(analysis)) if table.sections
    ]


def _statements_table(analysis: RunAnalysis) -> Table:
    def cells(treatment: treatments.TreatmentAnalysis) -> Sequence[str] | None:
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


def _removal_share(found: treatments.MaintenanceFigures) -> float | None:
    if found.removal_s is None or found.own_s is None or not found.removal_s + found.own_s:
        return None
    return found.removal_s / (found.removal_s + found.own_s)


def _parts_table(analysis: RunAnalysis) -> Table:
    columns = (
        *text_columns(factor_text(analysis.factor), "part"),
        Column("transactions/s"),
        Column("of before"),
        *(Column(f"p{percent:g}") for percent in _FEW_PERCENTS),
        Column("longest"),
        Column("count", drop=1),
    )
    title = "Clients before, during and after maintenance"
    return Table(title, columns, sections_of_rows(analysis, _part_rows))


def _part_rows(treatment: treatments.TreatmentAnalysis) -> Iterator[Sequence[str]]:
    if treatment.maintenance is None:
        return
    before = treatment.maintenance.parts[0].throughput
    for figures in treatment.maintenance.parts:
        latency = _part_latency(treatment, figures)
        throughput = figures.throughput
        share = throughput / before if throughput is not None and before else None
        yield (
            figures.part,
            known_text(throughput, grouped_text),
            known_text(share, percent_text),
            *(
                map(latency_text, latency.percentiles_s(_FEW_PERCENTS))
                if latency
                else [MISSING] * 2
            ),
            latency_text(latency.maximum_s) if latency else MISSING,
            f"{figures.transactions:,.0f}",
        )


def _part_latency(
    treatment: treatments.TreatmentAnalysis, figures: treatments.PartFigures
) -> Latency | None:
    """Return the response times of a part, in a closed loop the service times."""
    found = {each.time: each for each in treatment.latencies if each.of == figures.part}
    return found.get("response") or found.get("service")


def loop_tables(analysis: RunAnalysis) -> list[Table]:
    """Return the table of the loops, and that of the disk space at their ends, where there are any.

    A loop before which a server started again has a star.
    """
    most = max(
        (len(each.loops) for group in analysis.groups for each in group.treatments), default=0
    )
    if not most:
        return []
    numbers = treatments.shown(most)
    columns = (
        *text_columns(factor_text(analysis.factor)),
        *(Column(f"loop {number}") for number in numbers),
    )

    def table(title: str, text: Callable[[treatments.LoopMeans], str]) -> Table:
        def cells(treatment: treatments.TreatmentAnalysis) -> Sequence[str] | None:
            loops = {each.loop: each for each in treatment.loops}
            return [known_text(loops.get(number), text) for number in numbers] if loops else None

        return Table(title, columns, sections_of(analysis, cells))

    study = published_comparison(analysis)
    return [
        table(LOOPS_TITLE, throughput_text),
        *([_hours_table(study)] if study is not None and study.hours else []),
        table(
            "Data directory at the end of a loop",
            lambda loop: known_text(loop.allocated_bytes, bytes_text),
        ),
    ]


def _hours_table(study: PublishedStudy) -> Table:
    numbers = sorted({number for each in study.hours for number in each.values})
    columns = (*text_columns("server"), *(Column(f"hour {number}") for number in numbers))
    rows = (
        Row((each.name, *(known_text(each.values.get(number), grouped_text) for number in numbers)))
        for each in study.hours
    )
    return plain_table(f"Published ({study.name}): operations/s by the hour", columns, rows)


def throughput_text(loop: treatments.LoopMeans) -> str:
    """Return the throughput of a loop, with a star where a server started again before it."""
    return f"{grouped_text(loop.throughput)}{COLD_SIGN if loop.restarted_cold else ''}"
