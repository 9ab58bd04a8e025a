"""Analyze an ablation: trials of A, of B, and of B with settings of A.

Of each block x = value / value of the base, so that all shares are fractions of what the base does
and add up: loss = 1 - x(B), given back by an alignment = x(B aligned) - x(B), remaining with it = 1
- x(B aligned). Where less is better, signs are turned. Intervals are over blocks: of the loss those
in which A and B finished, of an alignment those of them in which it finished too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from millrace.analysis.certainty import Certainty
from millrace.analysis.compare.metrics import Metric, read_metrics, values_by_block
from millrace.analysis.explain.causes.model import LikelyCause
from millrace.analysis.steady.policy import unsteady_sides
from millrace.analysis.steady.steadiness import by_treatment
from millrace.levels import Level
from millrace.model.run_spec import Ablates
from millrace.stats.mean import MeanEstimate, mean_estimate
from millrace.store.records import StoredRun

ALL = "all of these"
"""The alignment of all suspected settings at once."""

_HALF = 0.5  # of the loss


@dataclass(frozen=True)
class Recovery:
    """The share of the loss that one alignment recovers, and what remains, of the base's value."""

    name: str
    share: MeanEstimate
    remaining: MeanEstimate


@dataclass(frozen=True)
class Answer:
    """The result of an alignment: the ``share`` of the loss, how certain it is, and a clause.

    ``certainty`` is None where the setting made less than half of the loss, if anything.
    """

    share: float
    certainty: Certainty | None
    clause: str


@dataclass(frozen=True)
class Ablation:
    """The loss of B against A, and what alignments recover of it, as fractions of the base's value.

    A gain is negative, and the alignment of all is the last. ``left_out`` says what is suspected
    and was not aligned, ``untried`` which alignments have no result that counts, and why.
    ``unsteady`` says why none of it counts, by the rules of verdicts, and is empty where it does.
    """

    metric: Metric
    loss: MeanEstimate
    recovered: tuple[Recovery, ...]
    run_id: str = ""
    left_out: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    unsteady: str = ""

    @property
    def remaining(self) -> MeanEstimate | None:
        """Return the loss that remains with all aligned, if that was measured."""
        *others, last = self.recovered
        return last.remaining if not others or last.name == ALL else None

    def answer(self, name: str) -> Answer | None:
        """Return what the alignment of this name shows; None where it has no certain loss."""
        each = next((each for each in self.recovered if each.name == name), None)
        if each is None or self.unsteady or not self.loss.excludes_0:
            return None
        low, high = each.share.low, each.share.high
        if low is None or high is None:
            return None
        ends = (low / self.loss.mean, high / self.loss.mean)
        if each.share.excludes_0 and min(ends) > 0:
            certainty: Certainty | None = Certainty.SHOWN
        else:
            certainty = None if max(ends) < _HALF else Certainty.POSSIBLE
        return Answer(each.share.mean / self.loss.mean, certainty, self._measured(each, ends))

    def _measured(self, each: Recovery, ends: tuple[float, float]) -> str:
        verb = "gives back" if self.loss.mean > 0 else "takes away"
        unsure = "" if each.share.excludes_0 else ", not sure"
        return (
            f"measured: with it as in A, B {verb} {100 * each.share.mean / self.loss.mean:.3g} % "
            f"of the difference in {self.metric.title} "
            f"({100 * min(ends):.3g} to {100 * max(ends):.3g} %{unsure})"
        )


def with_answers(
    causes: Sequence[LikelyCause], found: Sequence[Ablation], difference_us: float | None
) -> tuple[LikelyCause, ...]:
    """Return the causes with what ablations, the newest first, measured in place of the guesses.

    A cause that an ablation refuted is left out. Those that it showed come first, the largest
    share before others; those that it left undecided come last.
    """
    shown: list[LikelyCause] = []
    others: list[LikelyCause] = []
    undecided: list[LikelyCause] = []
    for cause in causes:
        answers = (of.answer(cause.about) for of in found) if cause.kind == "option" else ()
        answer = next(filter(None, answers), None)
        if answer is None:
            others.append(cause)
        elif answer.certainty is not None:
            measured = replace(
                cause,
                sentence=f"{cause.clause}; {answer.clause}",
                us=None if difference_us is None else answer.share * difference_us,
                share=answer.share,
                certainty=answer.certainty,
                may_be_most=True,
            )
            (shown if answer.certainty == Certainty.SHOWN else undecided).append(measured)
    shown.sort(key=lambda cause: -(cause.share or 0.0))
    return (*shown, *others, *undecided)


def is_ablation_of(
    stored: StoredRun, base: Mapping[str, Level], candidate: Mapping[str, Level]
) -> bool:
    """Return whether the run ablates the difference between treatments of these levels."""
    test = stored.run.spec.tested
    levels = {each.id: each.levels for each in stored.treatments}
    return test is not None and (
        levels.get(test.base) == base and levels.get(test.candidate) == candidate
    )


def ablation(stored: StoredRun) -> Ablation | None:
    """Analyze an ablation; None where no block has results of A, of B and of an alignment."""
    test = stored.run.spec.tested
    if test is None:
        return None
    metric = read_metrics(stored.run.spec.workload)[0]
    values = values_by_block(stored, metric, "measure")
    base, candidate = values.get(test.base, {}), values.get(test.candidate, {})
    sign = 1.0 if metric.direction == "higher" else -1.0

    def lost(treatment: Mapping[int, float]) -> dict[int, float]:
        """Return the loss by block, of the blocks that have it, A and B."""
        blocks = sorted(base.keys() & candidate.keys() & treatment.keys())
        return {block: sign * (1 - treatment[block] / base[block]) for block in blocks}

    loss = lost(candidate)
    left = {name: lost(values.get(each, {})) for name, each in test.treatments.items()}
    unsteady, refused = _unsteady(stored, test, [name for name, of in left.items() if of])
    untried = [name for name, of in left.items() if not of]
    left |= {name: {} for name in refused}
    shares = tuple(
        Recovery(
            name,
            mean_estimate([loss[block] - share for block, share in of.items()]),
            mean_estimate([*of.values()]),
        )
        for name, of in left.items()
        if of
    )
    if not shares:
        return None
    return Ablation(
        metric,
        mean_estimate([*loss.values()]),
        shares,
        run_id=stored.run.id,
        left_out=test.left_out,
        untried=(
            *(f"{name}: {reason}" for name, reason in refused.items()),
            *_untried(stored, {name: test.treatments[name] for name in untried}),
        ),
        unsteady=unsteady,
    )


def _unsteady(
    stored: StoredRun, test: Ablates, measured: Collection[str]
) -> tuple[str, dict[str, str]]:
    """Explain why unsteady trials void an ablation, or some of the ``measured`` alignments."""
    known = by_treatment(stored)

    def sides(one: str, other: str, names: tuple[str, str]) -> str:
        return unsteady_sides(known.get(one, ()), known.get(other, ()), names=names)

    if of_loss := sides(test.base, test.candidate, ("A", "B")):
        return of_loss, {}
    refused = {
        name: reason
        for name in measured
        if (reason := sides(test.candidate, test.treatments[name], ("B", f"B with {name} as in A")))
    }
    if len(refused) == len(measured):
        return "; ".join(refused.values()), {}
    return "", refused


def _untried(stored: StoredRun, treatments: Mapping[str, str]) -> tuple[str, ...]:
    """Explain why alignments have no result: those with the same reason in one clause."""
    last = stored.last_attempts()
    reasons: dict[str, list[str]] = {}
    for name, treatment in treatments.items():
        of = (last.get(trial.id) for trial in stored.trials if trial.treatment_id == treatment)
        failed = next((each for each in of if each and each.outcome == "failed"), None)
        reason = "no block has a result of it, of A and of B"
        if failed is not None and failed.reason:
            reason = f"failed at {failed.failed_step}: {failed.reason.splitlines()[0].rstrip('.')}"
        reasons.setdefault(reason, []).append(name)
    return tuple(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
