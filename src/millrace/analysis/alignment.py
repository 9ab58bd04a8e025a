"""What aligned settings give back of a loss, from trials of A and B and of B with settings of A.

Of each block x = value / value of the base, so that all shares are fractions of what the base does
and add up: loss = 1 - x(B), given back by an alignment = x(B aligned) - x(B), remaining =
1 - x(B with all aligned). Where less is better, signs are turned. Intervals are over blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millrace.analysis.metrics import Metric
from millrace.stats import MeanEstimate, mean_estimate
from millrace.store.records import StoredRun

ALL = "all of these"
"""The alignment of all suspected settings at once."""


@dataclass(frozen=True)
class GivenBack:
    """What one alignment gives back: a fraction of the base's value."""

    name: str
    share: MeanEstimate


@dataclass(frozen=True)
class Alignments:
    """The loss of B against A, what alignments give back of it, and what remains with the last of
    them, which is the one of all settings. Fractions of the base's value; a gain is negative.

    ``run_id`` is the run that showed it; ``left_out`` says what is suspected and was not aligned.
    """

    metric: Metric
    loss: MeanEstimate
    given_back: tuple[GivenBack, ...]
    remaining: MeanEstimate
    run_id: str = ""
    left_out: tuple[str, ...] = ()

    def shows(self, name: str) -> bool:
        """Whether this alignment alone gave back some of the loss for certain."""
        return any(
            each.name == name
            and each.share.low is not None
            and each.share.high is not None
            and (each.share.low > 0 if self.loss.mean > 0 else each.share.high < 0)
            for each in self.given_back
        )


def given_back(
    stored: StoredRun,
    metric: Metric,
    *,
    base: str,
    candidate: str,
    aligned: Mapping[str, str],
    confidence: float = 0.95,
) -> Alignments | None:
    """The shares of a run whose treatments are given by their ids, those of ``aligned`` by their
    names, the one of all settings last; None where no block has them all."""
    values = _values(stored, metric)
    ids = (base, candidate, *aligned.values())
    blocks = sorted(set.intersection(*(set(values.get(each, {})) for each in ids)))
    if not blocks:
        return None
    sign = 1.0 if metric.direction == "higher" else -1.0

    def lost(treatment: str) -> list[float]:
        of = values[treatment]
        return [sign * (1 - of[block] / values[base][block]) for block in blocks]

    def estimate(shares: list[float]) -> MeanEstimate:
        return mean_estimate(shares, confidence=confidence)

    loss = lost(candidate)
    shares = {
        name: [b - a for b, a in zip(loss, lost(treatment), strict=True)]
        for name, treatment in aligned.items()
    }
    *_, last = aligned.values()
    return Alignments(
        metric,
        estimate(loss),
        tuple(GivenBack(name, estimate(share)) for name, share in shares.items()),
        estimate(lost(last)),
    )


def _values(stored: StoredRun, metric: Metric) -> dict[str, dict[int, float]]:
    """The metric by treatment id and block, of trials that finished."""
    last = stored.last_attempts()
    found: dict[str, dict[int, float]] = {}
    for trial in stored.trials:
        attempt = last.get(trial.id)
        if attempt is None or attempt.outcome != "finished" or trial.purpose != "measure":
            continue
        if (value := metric.value(attempt)) is not None:
            found.setdefault(trial.treatment_id, {})[trial.block] = value
    return found
