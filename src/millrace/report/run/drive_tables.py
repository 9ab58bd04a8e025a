"""Tables of driven clients: latencies, the CPU time of a transaction, and steady states."""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median

from millrace.analysis.compare.metrics import Latency
from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.compare.treatments import TreatmentAnalysis
from millrace.analysis.steady.policy import reasons
from millrace.analysis.steady.steadiness import State
from millrace.levels import factor_text, level_value
from millrace.model.run_spec import Of
from millrace.report.common.formatting import (
    MISSING,
    count_text,
    known_text,
    latency_text,
    percent_text,
)
from millrace.report.common.tables import Column, Row, Section, Table, text_columns
from millrace.report.run.tables import sections_of
from millrace.report.run.units import level_s

PERCENTS = (50, 95, 99, 99.9)
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
    costs = [each for each in _COSTS if any(getattr(d, each[1]) is not None for d in driven)]
    if not costs:
        return None

    def cells(treatment: TreatmentAnalysis) -> list[str] | None:
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


def _steady_cells(treatment: TreatmentAnalysis) -> Sequence[str] | None:
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


def _cost(treatment: TreatmentAnalysis, name: str) -> float | None:
    """Return the level of the metric of this CPU time, if any, else the figure over all trials."""
    wanted = (_CPU_TIMES.get(name), ("transactions",))
    for found in treatment.metrics.values():
        if (found.metric.numerator, found.metric.denominator) == wanted:
            return level_s(found)
    cost: float | None = getattr(treatment.driven, name)
    return cost
