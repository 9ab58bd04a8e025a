"""Estimate the difference that this host shows between two trials of the base.

Some blocks hold one more trial of the base (see millrace.experiment.aa_trials). Its ratio to the
base's trial of the same block is a difference without a cause. The ratios of all groups together
are the estimate of the run, with the same interval as its comparisons. They enter no comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import AaTrials, Group, GroupAaTrials
from millrace.stats import Looks, RatioEstimate, paired_ratio
from millrace.store.records import StoredAttempt, StoredRun, TrialRecord

_Pairs = list[tuple[float, float]]


def compare_aa_trials(
    stored: StoredRun, groups: Sequence[Group], metric: Metric, looks: Looks
) -> AaTrials | None:
    """Compare the A/A trials of each group that has any with the base; None where none has."""
    last = stored.last_attempts()
    aa_trials = [trial for trial in stored.trials if trial.purpose == "control"]
    measured = {
        (trial.treatment_id, trial.block): trial
        for trial in stored.trials
        if trial.purpose == "measure"
    }
    found: list[GroupAaTrials] = []
    every: _Pairs = []
    for group in groups:
        for base in (treatment for treatment in group.treatments if treatment.is_base):
            mine = [trial for trial in aa_trials if trial.treatment_id == base.id]
            if not mine:
                continue
            pairs = _pairs(mine, measured, last, metric)
            every += pairs
            found.append(
                GroupAaTrials(
                    base_id=base.id,
                    fixed_factors=group.fixed_factors,
                    label=group.label,
                    planned=len(mine),
                    finished=sum(_outcome(last, trial) == "finished" for trial in mine),
                    estimate=_estimate(pairs, looks),
                )
            )
    return AaTrials(tuple(found), _estimate(every, looks)) if found else None


def _pairs(
    aa_trials: Sequence[TrialRecord],
    measured: Mapping[tuple[str, int], TrialRecord],
    last: Mapping[str, StoredAttempt],
    metric: Metric,
) -> _Pairs:
    """Return per block the value of the trial that measures and that of the A/A trial."""
    pairs: _Pairs = []
    for aa_trial in sorted(aa_trials, key=lambda trial: trial.block):
        of_base = measured.get((aa_trial.treatment_id, aa_trial.block))
        values = [
            metric.value(last[trial.id])
            for trial in (of_base, aa_trial)
            if trial is not None and _outcome(last, trial) == "finished"
        ]
        known = [value for value in values if value is not None]
        if len(known) == 2:
            pairs.append((known[0], known[1]))
    return pairs


def _outcome(last: Mapping[str, StoredAttempt], trial: TrialRecord) -> str | None:
    attempt = last.get(trial.id)
    return None if attempt is None else attempt.outcome


def _estimate(pairs: _Pairs, looks: Looks) -> RatioEstimate | None:
    if not pairs:
        return None
    return paired_ratio(*zip(*pairs, strict=True), looks=looks)
