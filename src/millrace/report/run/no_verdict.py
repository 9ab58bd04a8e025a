"""Words for comparisons without a verdict: in short, since their own sentences say it in full."""

from collections import Counter
from collections.abc import Sequence

from millrace.analysis.compare.model import Comparison, RunAnalysis
from millrace.levels import level_text
from millrace.model.run_spec import FEWEST_BLOCKS
from millrace.quantities import counted
from millrace.report.common.wording import listed
from millrace.report.run.undecided import unit_of_evidence

_MOST_NAMES = 4  # of levels whose trials were not steady


def why(comparisons: Sequence[Comparison], analysis: RunAnalysis) -> str:
    """Return text such as ``5 of 5 trials of mysql-8.0.12 were not steady``, without a hint.

    Each reason has the number of its comparisons where there are several reasons.
    """
    counts = Counter[str]()
    for each in comparisons:
        if each.verdict is None:
            counts[f"fewer than {FEWEST_BLOCKS} {unit_of_evidence(each, analysis)}s"] += 1
        elif each.unequal:
            counts[_unequal_text(each.unequal, in_full=len(comparisons) == 1)] += 1
    if unsteady := [each for each in comparisons if each.unsteady and each.verdict is not None]:
        counts[_unsteady_text(unsteady, analysis)] = len(unsteady)
    if len(comparisons) == 1 or len(counts) == 1:
        return "; ".join(counts)
    return "; ".join(f"{kind} ({counted(count, 'comparison')})" for kind, count in counts.items())


def _unequal_text(unequal: str, *, in_full: bool) -> str:
    """Return the kind of unequal work; ``in_full`` with its first clause, the figures."""
    kind, _, clauses = unequal.partition(": ")
    return f"{kind}, {clauses.partition('; ')[0]}" if in_full else kind


def _unsteady_text(comparisons: Sequence[Comparison], analysis: RunAnalysis) -> str:
    """Return text such as ``5 of 5 trials of v2 and 1 of 5 of v1 were not steady``."""
    compared = {each for c in comparisons for each in (c.base_id, c.candidate_id)}
    unsteady, judged = Counter[str](), Counter[str]()
    for treatment in analysis.treatments:
        if treatment.id in compared:
            name = level_text(analysis.factor, treatment.level)
            unsteady[name] += len(treatment.unsteady_trials)
            judged[name] += sum(trial.is_judged for trial in treatment.steadiness)
    found = [(name, count) for name, count in unsteady.most_common() if count]
    if len(found) > _MOST_NAMES:
        return f"{unsteady.total()} of {counted(judged.total(), 'trial')} were not steady"
    (first, count), *rest = found
    parts = [f"{count} of {counted(judged[first], 'trial')} of {first}"]
    parts += [f"{count} of {judged[name]} of {name}" for name, count in rest]
    return f"{listed(parts)} {'was' if unsteady.total() == 1 else 'were'} not steady"
