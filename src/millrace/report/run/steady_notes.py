"""Notes on the steady state of trials, and a table of every treatment."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.compare.treatment_model import TreatmentAnalysis
from millrace.analysis.steady.policy import counted_text, reasons
from millrace.analysis.steady.steadiness import TrialSteadiness
from millrace.levels import factor_text
from millrace.report.common.formatting import MISSING, counted
from millrace.report.common.tables import Column, Table, text_columns
from millrace.report.run.tables import sections_of

SHOWN = 6  # treatments; the table has all of them


def steady_warnings(analysis: RunAnalysis) -> Iterator[str]:
    """Yield refused verdicts, and trials that were not steady, a sentence each."""
    refused = sum(bool(c.unsteady) and c.verdict == "inconclusive" for c in analysis.comparisons())
    if refused:
        number = counted(refused, "comparison is", "comparisons are")
        yield f"{number} inconclusive: too many trials were not steady"
    found = [(t, _unsteady(t)) for t in analysis.treatments if _unsteady(t)]
    for treatment, unsteady in found[:SHOWN]:
        judged = sum(trial.is_judged for trial in treatment.steadiness)
        were = "was" if len(unsteady) == 1 else "were"
        of = f"{counted_text(len(unsteady), judged)} of {treatment.label}"
        yield f"{of} {were} not steady: {'; '.join(reasons(unsteady))}"
    if len(found) > SHOWN:
        more = counted(len(found) - SHOWN, "more treatment")
        yield f"{more} had trials that were not steady"


def steady_conditions(analysis: RunAnalysis) -> Iterator[str]:
    """Yield facts about the other trials, a sentence each."""
    trials = [trial for treatment in analysis.treatments for trial in treatment.steadiness]
    states = Counter(trial.state for trial in trials)
    total = counted(len(trials), "trial")
    if any(t.driven for t in analysis.treatments) and states["does not apply"] == len(trials):
        yield "a steady state is not asked for: all trials carried out as many transactions"
    if states["steady"] and not states["unsteady"]:
        yield f"{states['steady']} of {total} were steady while they were measured"
    if short := states["too short to tell"]:
        were, they = ("was", "it was") if short == 1 else ("were", "they were")
        yield f"{short} of {total} {were} too short to tell whether {they} steady"


def steady_table(analysis: RunAnalysis) -> Table | None:
    """Count the steady trials of each treatment; None where no trial recorded its seconds."""
    sections = sections_of(analysis, _cells)
    if not sections:
        return None
    columns = (
        *text_columns(factor_text(analysis.factor)), Column("steady"), Column("not steady"),
        Column("too short to tell", drop=1), Column("seconds", drop=1), Column("warm-up, s"),
        Column("warmed up after, s"), *text_columns("not steady because"),
    )  # fmt: skip
    return Table("Steady state", columns, sections)


def _cells(treatment: TreatmentAnalysis) -> Sequence[str] | None:
    known = ("steady", "unsteady", "too short to tell")
    recorded = [trial for trial in treatment.steadiness if trial.state in known]
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


def _unsteady(treatment: TreatmentAnalysis) -> Sequence[TrialSteadiness]:
    return [trial for trial in treatment.steadiness if trial.state == "unsteady"]
