"""Decide whether two treatments' trials were steady enough to be compared.

They are not compared where more than half of the trials of one (two at least) were not steady,
since its mean depends on when the measured part began and ended; or where one has more of them than
the other by Fisher's exact test (*The Design of Experiments*, 1935). Only trials that were long
enough count. A steady one is called unsteady with a probability of about 0.02
(``steadiness.ALPHA``), so that more than half of three are by chance in one of 800 treatments.

More trials may change that answer: where a fifth of all trials is unsteady on both sides, one of
five comparisons is refused at some of 40 looks. So a run goes on, until evidence that holds at any
look shows that they will stay refused (``lasts``). Half of it is the blocks in which exactly one
trial was steady, which are as many on either side where the two are alike (McNemar, Psychometrika
12, 1947); the rest is the unsteady trials of each side against a half. Bets are by
``stats.proportions``.
"""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

from millrace.analysis.steady.steadiness import HOST_CHECKS, PLANS, TrialSteadiness
from millrace.quantities import counted
from millrace.stats.proportions import against_at_most_half, fair_coin_e_value
from millrace.stats.rates import fisher

FREQUENT = 0.5  # of the trials of a side that were long enough
_FEWEST = 2  # unsteady trials: a single one may be an exception
_ALPHA = 0.05
# Gates whose failure neither a longer warm-up nor equal work mends.
_OWN_HINT = HOST_CHECKS | {PLANS}


def reasons(trials: Sequence[TrialSteadiness]) -> list[str]:
    """Explain why trials are not steady, a clause a kind, the most frequent first."""
    said: dict[tuple[str, bool], list[TrialSteadiness]] = {}
    for trial in trials:
        if trial.trend.kind not in ("steady", "too short to tell"):
            rises = (trial.trend.change or 0.0) > 0
            said.setdefault((trial.trend.kind, rises), []).append(trial)
    clauses = [(len(alike), _clause(alike)) for alike in said.values()]
    failed = Counter(gate.clause for trial in trials for gate in trial.failed)
    clauses += [(count, clause) for clause, count in failed.items()]
    return [clause for _, clause in sorted(clauses, key=lambda each: -each[0])]


def _clause(alike: Sequence[TrialSteadiness]) -> str:
    first = alike[0]
    changes = [trial.trend.change for trial in alike if trial.trend.change is not None]
    amount = _percent(abs(median(changes))) if changes else "much"
    rises = (first.trend.change or 0.0) > 0
    verb = "rose" if rises else "fell"
    match first.trend.kind:
        case "warm-up":
            reach_s = median([(t.found_s or 0.0) - (t.warmup_s or 0.0) for t in alike])
            how = "higher" if rises else "lower"
            return (
                f"they still warmed up for {reach_s:.0f} s of the measured part, with "
                f"{first.figure} {amount} {how}"
            )
        case "drift":
            return f"{first.figure} {verb} by {amount} over the measured part"
        case "shift":
            return f"{first.figure} {verb} by {amount} at once in the measured part"
        case _:
            return f"{first.figure} went up and down by {amount} in the measured part"


def unsteady_sides(
    base: Sequence[TrialSteadiness], candidate: Sequence[TrialSteadiness], *, names: tuple[str, str]
) -> str:
    """Explain, with a hint, why unsteady trials prevent a comparison; empty where they do not."""
    sides = [[trial for trial in side if trial.is_judged] for side in (base, candidate)]
    unsteady = [[trial for trial in side if trial.state == "unsteady"] for side in sides]
    base_count, candidate_count = counts = [
        (len(found), len(side)) for found, side in zip(unsteady, sides, strict=True)
    ]
    if not are_refused(base_count, candidate_count):
        return ""
    clauses = [
        f"{n_unsteady} of {counted(judged, 'trial')} of {name} ({'; '.join(reasons(found))})"
        for (n_unsteady, judged), name, found in zip(counts, names, unsteady, strict=True)
        if found
    ]
    return f"not steady: {' and '.join(clauses)}; {_hint([*unsteady[0], *unsteady[1]])}"


def are_refused(base: tuple[int, int], candidate: tuple[int, int]) -> bool:
    """Return whether sides with these numbers of unsteady and judged trials are not compared."""
    if any(
        unsteady >= _FEWEST and unsteady > FREQUENT * judged
        for unsteady, judged in (base, candidate)
    ):
        return True
    return bool(base[1] and candidate[1]) and fisher(base, candidate) < _ALPHA


def lasts(base: Sequence[TrialSteadiness], candidate: Sequence[TrialSteadiness]) -> bool:
    """Return whether two treatments will not be compared however many blocks there are.

    Unsteady trials are then more frequent on one side, or than a half. It is said of others at any
    look with a probability of 5 % at most.
    """
    sides = [
        {trial.block: trial.state == "unsteady" for trial in side if trial.is_judged}
        for side in (base, candidate)
    ]
    of_base, of_candidate = sides
    pairs = [(of_base[block], of_candidate[block]) for block in of_base if block in of_candidate]
    other = [candidate for base, candidate in pairs if base != candidate]
    evidence = [
        fair_coin_e_value(sum(other), len(other)) / 2,
        *(against_at_most_half(sum(side.values()), len(side)) / 4 for side in sides),
    ]
    return sum(evidence) >= 1 / _ALPHA


def _hint(unsteady: Sequence[TrialSteadiness]) -> str:
    """Return a hint: the change to the experiment that makes trials steady, or unnecessary."""
    own = {gate.hint for trial in unsteady for gate in trial.failed if gate.name in _OWN_HINT}
    if own and all(_has_only_own_hints(trial) for trial in unsteady):
        return "; ".join(sorted(own))
    enough_s = max(trial.enough_s or 0.0 for trial in unsteady)
    warmup_s = max(trial.warmup_s or 0.0 for trial in unsteady)
    longer = f"warm up for longer (warmup_s = {_rounded(enough_s)}, it was {warmup_s:g})"
    if all(trial.trend.kind == "wave" and not trial.failed for trial in unsteady):
        measured_s = max(trial.measured_s or 0.0 for trial in unsteady)
        longer = f"measure over several such waves (time_s = {_rounded(4 * measured_s)})"
    transactions = sum(trial.transactions for trial in unsteady) / len(unsteady)
    size = 10 ** max(math.floor(math.log10(max(transactions, 1))) - 1, 0)
    two_digits = max(round(transactions / size), 1) * size
    return f"{longer}, or compare equal work (operations = {two_digits})"


def _has_only_own_hints(trial: TrialSteadiness) -> bool:
    gates_failed = {gate.name for gate in trial.failed}
    if gates_failed & HOST_CHECKS:
        return True  # its course and its server's state are those of a host that stood still
    return trial.trend.kind == "steady" and gates_failed == {PLANS}


def _rounded(seconds: float) -> int:
    return max(5 * math.ceil(seconds / 5), 5)


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.0995 else f"{share * 100:.1f} %"
