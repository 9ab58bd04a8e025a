"""Notes on the steady state of trials, and a table of every treatment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.compare.treatment_model import TreatmentAnalysis
from millrace.analysis.steady.policy import counted_text, reasons
from millrace.analysis.steady.steadiness import TrialSteadiness
from millrace.levels import factor_text
from millrace.report.common.formatting import MISSING, counted
from millrace.report.common.tables import Column, Table
from millrace.report.run.tables import sections_of

SHOWN = 6  # treatments; the table has all of them


def warnings(analysis: RunAnalysis) -> list[str]:
    """List the verdicts that were refused, and the trials that were not steady, a sentence each."""
    refused = [c for c in analysis.comparisons() if c.unsteady and c.verdict == "inconclusive"]
    lines = []
    if refused:
        number = counted(len(refused), "comparison")
        verb = "is" if len(refused) == 1 else "are"
        lines.append(f"{number} {verb} inconclusive: too many trials were not steady")
    told = [_counted(t) for t in analysis.treatments if _unsteady(t)]
    if len(told) > SHOWN:
        more = counted(len(told) - SHOWN, "more treatment")
        return [*lines, *told[:SHOWN], f"{more} had trials that were not steady"]
    return [*lines, *told]


def _counted(treatment: TreatmentAnalysis) -> str:
    """Return text such as ``2 of 10 trials of mysql-8.0.33 were not steady: ...``."""
    judged, unsteady = _judged(treatment), _unsteady(treatment)
    return (
        f"{counted_text(len(unsteady), len(judged))} of {treatment.label} "
        f"{'was' if len(unsteady) == 1 else 'were'} not steady: {'; '.join(reasons(unsteady))}"
    )


def conditions(analysis: RunAnalysis) -> list[str]:
    """List what is known of the other trials, a sentence each."""
    trials = [trial for treatment in analysis.treatments for trial in treatment.steadiness]
    states = Counter(trial.state for trial in trials)
    total = counted(len(trials), "trial")
    lines = []
    if any(t.driven for t in analysis.treatments) and states["does not apply"] == len(trials):
        lines.append("a steady state is not asked for: all trials carried out as many transactions")
    if states["steady"] and not states["unsteady"]:
        lines.append(f"{states['steady']} of {total} were steady while they were measured")
    if short := states["too short to tell"]:
        lines.append(f"{short} of {total} {'was' if short == 1 else 'were'} too short to tell "
                     f"whether {'it was' if short == 1 else 'they were'} steady")  # fmt: skip
    return lines


def steady_table(analysis: RunAnalysis) -> Table | None:
    """Count the steady trials of each treatment; None where no trial recorded its seconds."""
    sections = sections_of(analysis, _cells)
    if not sections:
        return None
    columns = (
        Column(factor_text(analysis.factor), numeric=False),
        Column("steady"),
        Column("not steady"),
        Column("too short to tell", drop=1),
        Column("seconds", drop=1),
        Column("warm-up, s"),
        Column("warmed up after, s"),
        Column("not steady because", numeric=False),
    )
    return Table("Steady state", columns, sections)


def _cells(treatment: TreatmentAnalysis) -> Sequence[str] | None:
    recorded = _recorded(treatment)
    if not recorded:
        return None
    states = Counter(trial.state for trial in recorded)
    found = [trial.found_s for trial in recorded if trial.found_s is not None]
    own = [trial.warmup_s for trial in recorded if trial.warmup_s is not None]
    return (
        str(states["steady"]),
        str(states["unsteady"]),
        str(states["too short to tell"]),
        f"{median(trial.seconds for trial in recorded):g}",
        f"{median(own):.1f}" if own else MISSING,
        f"{median(found):.1f}" if found else MISSING,
        "; ".join(reasons(_unsteady(treatment))) or MISSING,
    )


def _recorded(treatment: TreatmentAnalysis) -> Sequence[TrialSteadiness]:
    return [t for t in treatment.steadiness if t.is_judged or t.state == "too short to tell"]


def _judged(treatment: TreatmentAnalysis) -> Sequence[TrialSteadiness]:
    return [trial for trial in treatment.steadiness if trial.is_judged]


def _unsteady(treatment: TreatmentAnalysis) -> Sequence[TrialSteadiness]:
    return [trial for trial in treatment.steadiness if trial.state == "unsteady"]
