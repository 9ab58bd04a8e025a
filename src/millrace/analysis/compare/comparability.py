"""Assess whether two treatments can be compared: by equal work, and by steady trials.

Unequal work makes the verdict inconclusive in any metric: where transactions failed, were begun
again or were left out at rates that are not shown to be equal (``millrace.stats.rates``), where a
fixed number of transactions was another one, or where transactions read or changed another number
of rows. Equal is within half of the margin, so that no difference of speed that matters can be made
of work that was not done, and within 1 percentage point at most. Where an open loop's clients
skipped another share of the schedule, and nothing else differs, that share is the verdict on
latencies and rates: the server that leaves more undone is the slower one, whatever the others took.
Nor are two treatments compared where most transactions of one ended in an error (``MOST_ERRORS``).

Chance makes work of like with like unequal with a probability of ``_ALPHA`` at most, over all that
is compared together; in a run that is looked at after every block, over all looks as well.

After every block a run finds out whether more blocks may change a refusal. It gives a comparison up
where unequal work or missing steadiness is shown for any look.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from millrace.analysis.steady.policy import lasts, unsteady_sides
from millrace.analysis.steady.steadiness import TrialSteadiness
from millrace.levels import split_role
from millrace.model import measurements
from millrace.stats.mean import mean_limits
from millrace.stats.rates import NEGLIGIBLE, compare_rates
from millrace.stats.ratio import Looks, log_ratios
from millrace.stats.sequential import FIRST_LOOK
from millrace.store.records import StoredAttempt, TrialRecord

COUNT_TOLERANCE = NEGLIGIBLE  # of the transactions asked for
MOST_TOLERATED = 0.01
MOST_ERRORS = 0.5  # of the transactions that ended


_ALPHA = 0.05
# Of a trial: with fewer on both sides, chance may decide whether there are any.
_FEWEST_ROWS = 20

# At all levels of these factors, clients send the same statements.
_SAME_STATEMENTS = frozenset(
    (
        "server", "configuration", "engine", "clients", "protocol", "transport", "tls", "rate",
        "arrivals", "compression", "attach", "log_format", "gtid",
    )
)  # fmt: skip


@dataclass(frozen=True)
class ComparabilityRules:
    """The rules by which treatments are compared.

    ``margin`` is the smallest relative difference that matters; ``operations`` is how many
    transactions each trial was to carry out, 0 if it ended by time; ``same_statements`` says
    whether all trials were sent the same statements; ``looks`` for which looks answers hold.
    """

    margin: float
    operations: int
    same_statements: bool
    looks: Looks = "once"


@dataclass(frozen=True)
class TrialWork:
    """The work of one finished trial's clients: counts of transactions.

    ``transactions`` succeeded, ``errors`` ended in an error, ``retries`` counts those begun again.
    ``skipped`` of ``scheduled`` were not sent, being too late (0 of 0 in closed loop).
    ``error_codes`` has the server's codes and how many transactions ended with each.
    """

    block: int
    transactions: int
    errors: int = 0
    retries: int = 0
    late: int = 0
    skipped: int = 0
    scheduled: int = 0
    rows_read: int = 0
    rows_affected: int = 0
    error_codes: tuple[tuple[str, int], ...] = ()

    @property
    def tried(self) -> int:
        return self.transactions + self.errors


@dataclass(frozen=True)
class _Kind:
    """A way in which work can be unequal; ``said`` is what happened to a share of the tries."""

    hits: Callable[[TrialWork], int]
    tries: Callable[[TrialWork], int]
    said: str


@dataclass(frozen=True)
class _By:
    """The tolerance of a comparison of work, the error rate of each test, and its looks."""

    tolerance: float
    alpha: float
    looks: Looks


_Pair = tuple[TrialWork, TrialWork]  # the base's and the candidate's trial of a block

_SKIPPED = _Kind(
    lambda w: w.skipped, lambda w: w.scheduled, "of the scheduled transactions were skipped"
)
_RATES = (
    _Kind(lambda w: w.errors, lambda w: w.tried, "of the transactions ended in an error"),
    _Kind(
        lambda w: w.retries, lambda w: w.tried + w.retries, "of the transactions begun were retries"
    ),
    _SKIPPED,
)

_ROWS: tuple[tuple[str, Callable[[TrialWork], int]], ...] = (
    ("read", lambda work: work.rows_read),
    ("changed", lambda work: work.rows_affected),
)


def trial_work(trial: TrialRecord, attempt: StoredAttempt) -> TrialWork | None:
    """Return the work of a finished trial; None where no clients were driven."""
    measured = {name: round(value) for name, value in attempt.measured.items()}
    if measurements.TRANSACTIONS not in measured:
        return None
    scheduled = measured.get(measurements.SCHEDULED, 0)
    return TrialWork(
        block=trial.block,
        transactions=measured[measurements.TRANSACTIONS],
        errors=measured.get(measurements.ERRORS, 0),
        retries=measured.get(measurements.RETRIES, 0),
        late=measured.get(measurements.LATE, 0),
        skipped=min(measured.get(measurements.SKIPPED, 0), scheduled),
        scheduled=scheduled,
        rows_read=measured.get(measurements.ROWS_READ, 0),
        rows_affected=measured.get(measurements.ROWS_AFFECTED, 0),
        error_codes=tuple(
            (code, count)
            for name, count in measured.items()
            if (code := measurements.error_code(name)) is not None
        ),
    )


def asks_the_same(factor: str) -> bool:
    """Return whether the levels of a compared factor are asked the same statements."""
    _, name = split_role(factor)
    return name in _SAME_STATEMENTS or name.startswith("options.")


@dataclass(frozen=True)
class SkippedShares:
    """The shares of the scheduled transactions of an open loop that were skipped.

    They are of both sides, and shown to be different.
    """

    base: float
    candidate: float


@dataclass(frozen=True)
class Unequal:
    """The reasons why work was not shown to be equal, or was shown to be different, if any.

    ``skipped`` is set where the skipped shares alone are different: then they are the answer.
    """

    reason: str = ""
    shows_difference: bool = False
    skipped: SkippedShares | None = None


def unequal_work(
    base: Sequence[TrialWork],
    candidate: Sequence[TrialWork],
    names: tuple[str, str],
    rules: ComparabilityRules,
) -> Unequal:
    """Assess whether two treatments, called ``names``, did the same work in the blocks of both."""
    by_block = {work.block: work for work in candidate}
    pairs = [(work, by_block[work.block]) for work in base if work.block in by_block]
    if not pairs:
        return Unequal()
    if failed := _mostly_errors(pairs, names):
        return Unequal(failed, shows_difference=True)
    tolerance = max(NEGLIGIBLE, min(rules.margin / 2, MOST_TOLERATED))
    rates = [kind for kind in _RATES if any(kind.hits(work) for pair in pairs for work in pair)]
    rows = [kind for kind in _ROWS if rules.same_statements and _vary(kind[1], pairs)]
    # Bonferroni: all of them together are wrong that rarely.
    alpha = _ALPHA / max(len(rates) + len(rows), 1)
    by = _By(tolerance, alpha, rules.looks)
    different, unknown = _compared_rates(rates, pairs, names, by)
    skipped = _skipped_shares(different, pairs, unknown)
    different += _different_counts(pairs, names, rules.operations)
    different += _different_rows(rows, pairs, names, by)
    if different:
        return Unequal(
            f"unequal work: {'; '.join([*different, *unknown])}",
            shows_difference=True,
            skipped=skipped if len(different) == 1 else None,
        )
    if unknown:
        points = f"{tolerance * 100:.2g} percentage point{'' if tolerance == 0.01 else 's'}"
        return Unequal(
            f"work not shown to be equal: {'; '.join(unknown)}; equal is within {points}, "
            f"which more blocks may show"
        )
    return Unequal()


def _mostly_errors(pairs: Sequence[_Pair], names: tuple[str, str]) -> str:
    """Return why most transactions of a side failed, over all its trials, if they did."""
    sides = list(zip(*pairs, strict=True))
    rates = [
        sum(work.errors for work in side) / max(sum(work.tried for work in side), 1)
        for side in sides
    ]
    if max(rates) <= MOST_ERRORS:
        return ""
    codes: Counter[str] = Counter()
    for work in (*sides[0], *sides[1]):
        codes.update(dict(work.error_codes))
    most = f", most with code {codes.most_common(1)[0][0]}" if codes else ""
    return (
        f"too many errors: {_percent(rates[1])} of the transactions ended in an error with "
        f"{names[1]}, {_percent(rates[0])} with {names[0]}{most}; above {_percent(MOST_ERRORS)} "
        f"the speed is that of errors, so correct the workload or the configuration"
    )


def _compared_rates(
    kinds: Sequence[_Kind], pairs: Sequence[_Pair], names: tuple[str, str], by: _By
) -> tuple[list[str], list[str]]:
    different: list[str] = []
    unknown: list[str] = []
    for kind in kinds:
        compared = compare_rates(
            [(kind.hits(base), kind.tries(base)) for base, _ in pairs],
            [(kind.hits(candidate), kind.tries(candidate)) for _, candidate in pairs],
            tolerance=by.tolerance,
            alpha=by.alpha,
            looks=by.looks,
        )
        if compared.shown != "equal":
            (different if compared.shown == "different" else unknown).append(
                f"{_percent(compared.candidate)} {kind.said} with {names[1]}, "
                f"{_percent(compared.base)} with {names[0]}"
            )
    return different, unknown


def _skipped_shares(
    different: Sequence[str], pairs: Sequence[_Pair], unknown: Sequence[str]
) -> SkippedShares | None:
    """Return the skipped shares where they, and no other rates, are different."""
    if len(different) != 1 or unknown or _SKIPPED.said not in different[0]:
        return None
    base, candidate = (
        sum(map(_SKIPPED.hits, side)) / sum(map(_SKIPPED.tries, side))
        for side in zip(*pairs, strict=True)
    )
    return SkippedShares(base, candidate)


def _different_counts(
    pairs: Sequence[_Pair], names: tuple[str, str], operations: int
) -> Iterator[str]:
    """Yield the first block in which a fixed number of transactions was not the same number."""
    for base, candidate in pairs:
        if operations and abs(base.tried - candidate.tried) > COUNT_TOLERANCE * operations:
            yield (
                f"{candidate.tried:,} of {operations:,} transactions were carried out with "
                f"{names[1]} in block {base.block + 1}, {base.tried:,} with {names[0]}"
            )
            return


def _different_rows(
    kinds: Sequence[tuple[str, Callable[[TrialWork], int]]],
    pairs: Sequence[_Pair],
    names: tuple[str, str],
    by: _By,
) -> Iterator[str]:
    """Yield differing numbers of rows of a transaction, beyond chance."""
    for said, rows in kinds:
        a_transaction = [_of_a_transaction(rows, pair) for pair in pairs]
        with_rows = [_of_a_transaction(rows, pair) for pair in pairs if _has_rows(rows, pair)]
        if all(all(pair) for pair in with_rows) and not _is_other(with_rows, by):
            continue
        base, candidate = (sum(side) / len(pairs) for side in zip(*a_transaction, strict=True))
        yield (
            f"a transaction {said} {candidate:.4g} rows with {names[1]}, {base:.4g} with {names[0]}"
        )


def _vary(rows: Callable[[TrialWork], int], pairs: Sequence[_Pair]) -> bool:
    """Return whether the rows of a transaction differ at all in any block."""
    each = (_of_a_transaction(rows, pair) for pair in pairs if _has_rows(rows, pair))
    return any(base != candidate for base, candidate in each)


def _has_rows(rows: Callable[[TrialWork], int], pair: _Pair) -> bool:
    return max(rows(work) for work in pair) >= _FEWEST_ROWS


def _of_a_transaction(rows: Callable[[TrialWork], int], pair: _Pair) -> tuple[float, float]:
    base, candidate = (rows(work) / max(work.transactions, 1) for work in pair)
    return base, candidate


def _is_other(pairs: Sequence[tuple[float, float]], by: _By) -> bool:
    """Return whether the second figures differ from the first beyond chance and tolerance."""
    ratios = log_ratios(*zip(*pairs, strict=True))
    low, high = mean_limits(ratios, by.alpha, by.looks)
    is_chance = low <= 0 <= high
    return not is_chance and abs(math.expm1(float(ratios.mean()))) > by.tolerance


def _percent(rate: float) -> str:
    return f"{rate * 100:.3g} %"


Incomparability = Literal["unequal", "unsteady"]


@dataclass(frozen=True)
class TreatmentTrials:
    """A treatment's finished trials, and its name in sentences."""

    name: str
    work: Sequence[TrialWork]
    steadiness: Sequence[TrialSteadiness]


@dataclass(frozen=True)
class Comparability:
    """The reasons why two treatments are not compared; empty where nothing speaks against it.

    ``permanently`` is the one that more blocks would not change. ``skipped`` are the shares of an
    open loop's schedule that were skipped, where these make the work unequal.
    """

    unequal: str
    unsteady: str
    permanently: Incomparability | None
    skipped: SkippedShares | None = None

    def without_steadiness(self) -> Self:
        """Return the same for what does not depend on steady trials."""
        permanently = None if self.permanently == "unsteady" else self.permanently
        return replace(self, unsteady="", permanently=permanently)

    @property
    def reason(self) -> str:
        return "; ".join(filter(None, (self.unequal, self.unsteady)))


def assess_comparability(
    base: TreatmentTrials, candidate: TreatmentTrials, rules: ComparabilityRules
) -> Comparability:
    """Assess whether ``candidate`` can be compared with ``base``, by the blocks that both have."""
    names = (base.name, candidate.name)
    unequal = unequal_work(base.work, candidate.work, names, rules)
    sides = _of_the_same_blocks(base.steadiness, candidate.steadiness)
    unsteady = unsteady_sides(*sides, names=names)
    worked = {work.block for work in base.work} & {work.block for work in candidate.work}
    permanently: Incomparability | None = None
    if unequal.shows_difference and len(worked) >= FIRST_LOOK:
        permanently = "unequal"
    elif unsteady and lasts(*sides):
        permanently = "unsteady"
    return Comparability(unequal.reason, unsteady, permanently, unequal.skipped)


def _of_the_same_blocks(
    base: Sequence[TrialSteadiness], candidate: Sequence[TrialSteadiness]
) -> tuple[list[TrialSteadiness], list[TrialSteadiness]]:
    sides = (base, candidate)
    blocks = set.intersection(*({trial.block for trial in side} for side in sides))
    first, second = ([trial for trial in side if trial.block in blocks] for side in sides)
    return first, second
