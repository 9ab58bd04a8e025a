"""Whether two treatments did the same work, without which a speed says nothing.

Two treatments whose transactions failed, were begun again or were left out at rates that are not
shown to be equal (``millrace.stats.rates`` says what is), that carried out another number of
transactions though the number was fixed, or whose transactions read or changed another number of
rows (deletes of rows that are gone, reads of a table that grew faster), are not compared: the
verdict is inconclusive, whichever the metric. Equal is within half of the margin, so that no
difference of speed that matters can be made of work that was not done, and within 1 percentage
point at most.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.stats import compare_rates, paired_ratio
from millrace.stats.rates import NEGLIGIBLE
from millrace.store.records import StoredAttempt, TrialRecord

COUNT_TOLERANCE = NEGLIGIBLE  # of the transactions asked for
MOST_TOLERATED = 0.01

# Measurements of this name and a server's error code: transactions that ended with it.
_ERROR_CODE = "errors_"

_DIFFERENT = "unequal work"

_ALPHA = 0.05
_FEWEST_PAIRS = 2  # a single one says nothing about chance

# Whichever level of these: clients send the same statements, to another server or otherwise.
_OF_HOW = frozenset(
    (
        "server", "configuration", "engine", "clients", "protocol", "transport", "tls", "rate",
        "arrivals",
    )
)  # fmt: skip


@dataclass(frozen=True)
class TrialWork:
    """What one finished trial's clients did: counts of transactions.

    ``transactions`` succeeded, ``errors`` ended in an error, ``retries`` counts those begun again.
    ``skipped`` of ``scheduled`` were not sent, being too late (0 of 0 in closed loop).
    ``rows_read`` and ``rows_affected`` are of all their statements. ``error_codes`` has the
    server's codes and how many transactions ended with each.
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
    error_codes: tuple[tuple[int, int], ...] = ()

    @property
    def tried(self) -> int:
        """Transactions that ended, well or not."""
        return self.transactions + self.errors


@dataclass(frozen=True)
class _Kind:
    """A way in which work can be unequal; ``said`` is what happened to a share of the tries."""

    hits: Callable[[TrialWork], int]
    tries: Callable[[TrialWork], int]
    said: str


_KINDS = (
    _Kind(lambda w: w.errors, lambda w: w.tried, "of the transactions ended in an error"),
    _Kind(
        lambda w: w.retries, lambda w: w.tried + w.retries, "of the transactions begun were retries"
    ),
    _Kind(lambda w: w.skipped, lambda w: w.scheduled, "of the scheduled transactions were skipped"),
)


def trial_work(trial: TrialRecord, attempt: StoredAttempt) -> TrialWork | None:
    """What a finished trial did; None where no clients were driven."""
    measured = {m.name: round(m.value) for m in attempt.measurements if m.role == "server"}
    if "transactions" not in measured:
        return None
    scheduled, skipped = measured.get("scheduled", 0), measured.get("skipped", 0)
    return TrialWork(
        block=trial.block,
        transactions=measured["transactions"],
        errors=measured.get("errors", 0),
        retries=measured.get("retries", 0),
        late=measured.get("late", 0),
        skipped=min(skipped, scheduled),
        scheduled=scheduled,
        rows_read=measured.get("rows_read", 0),
        rows_affected=measured.get("rows_affected", 0),
        error_codes=tuple(
            (int(name.removeprefix(_ERROR_CODE)), count)
            for name, count in measured.items()
            if name.startswith(_ERROR_CODE)
        ),
    )


def operations_asked(spec: Mapping[str, Any]) -> int:
    """How many transactions each trial of a run was to carry out; 0 where it ended by time."""
    return int(spec.get("parameters", {}).get("operations") or 0)


def asks_the_same(factor: str) -> bool:
    """Whether the levels of a compared factor are asked the same statements."""
    return factor in _OF_HOW or factor.startswith("options.")


def unequal_work(
    base: Sequence[TrialWork],
    candidate: Sequence[TrialWork],
    *,
    names: tuple[str, str],
    operations: int,
    same_statements: bool,
    margin: float,
) -> str:
    """Why two treatments' work was not the same, or cannot be shown to be, in words with numbers;
    empty where it was.

    Only blocks of which both have a trial count. ``names`` are the base's and the candidate's;
    ``same_statements`` says whether both were asked the same, and so have to give as many rows.
    """
    pairs = _pairs(base, candidate)
    if not pairs:
        return ""
    of_base, of_candidate = ([pair[side] for pair in pairs] for side in (0, 1))
    tolerance = max(NEGLIGIBLE, min(margin / 2, MOST_TOLERATED))
    different, unknown = _rates(of_base, of_candidate, names, tolerance)
    different += _different_counts(of_base, of_candidate, names, operations)
    if same_statements:
        different += _different_rows(of_base, of_candidate, names, tolerance)
    if different:
        return f"{_DIFFERENT}: {'; '.join([*different, *unknown])}"
    if unknown:
        points = f"{tolerance * 100:.2g} percentage point{'' if tolerance == 0.01 else 's'}"
        return (
            f"work not shown to be equal: {'; '.join(unknown)}; equal is within {points}, "
            f"which more blocks may show"
        )
    return ""


def was_different(unequal: str) -> bool:
    """Whether the work that ``unequal_work`` tells of was told apart, which more blocks do not
    mend; else it may yet be shown to be equal."""
    return unequal.startswith(_DIFFERENT)


def _pairs(
    base: Collection[TrialWork], candidate: Collection[TrialWork]
) -> list[tuple[TrialWork, TrialWork]]:
    by_block = {work.block: work for work in candidate}
    return [(work, by_block[work.block]) for work in base if work.block in by_block]


def _rates(
    base: Sequence[TrialWork],
    candidate: Sequence[TrialWork],
    names: tuple[str, str],
    tolerance: float,
) -> tuple[list[str], list[str]]:
    """The rates that differ, and those that are not shown to be equal."""
    different: list[str] = []
    unknown: list[str] = []
    happened = [kind for kind in _KINDS if any(kind.hits(work) for work in (*base, *candidate))]
    for kind in happened:
        compared = compare_rates(
            [(kind.hits(work), kind.tries(work)) for work in base],
            [(kind.hits(work), kind.tries(work)) for work in candidate],
            tolerance=tolerance,
            alpha=_ALPHA / len(happened),  # Bonferroni: all of them together are wrong that rarely
        )
        if compared.shown != "equal":
            (different if compared.shown == "different" else unknown).append(
                f"{_percent(compared.candidate)} {kind.said} with {names[1]}, "
                f"{_percent(compared.base)} with {names[0]}"
            )
    return different, unknown


def _different_counts(
    base: Sequence[TrialWork],
    candidate: Sequence[TrialWork],
    names: tuple[str, str],
    operations: int,
) -> Iterator[str]:
    """The first block in which a fixed number of transactions was not the same number."""
    for one, other in zip(base, candidate, strict=True):
        if operations and abs(one.tried - other.tried) > COUNT_TOLERANCE * operations:
            yield (
                f"{other.tried:,} of {operations:,} transactions were carried out with {names[1]} "
                f"in block {one.block + 1}, {one.tried:,} with {names[0]}"
            )
            return


def _different_rows(
    base: Sequence[TrialWork],
    candidate: Sequence[TrialWork],
    names: tuple[str, str],
    tolerance: float,
) -> Iterator[str]:
    """The rows of a transaction that are not as many, by more than chance makes of drawn ranges."""
    kinds: tuple[tuple[str, Callable[[TrialWork], int]], ...] = (
        ("read", lambda work: work.rows_read),
        ("changed", lambda work: work.rows_affected),
    )
    for said, rows in kinds:
        of_base, of_candidate = (
            [rows(work) / max(work.transactions, 1) for work in side] for side in (base, candidate)
        )
        pairs = list(zip(of_base, of_candidate, strict=True))
        have_rows = [pair for pair in pairs if any(pair)]
        if all(all(pair) for pair in have_rows) and not _is_other(have_rows, tolerance):
            continue
        means = [sum(side) / len(side) for side in (of_candidate, of_base)]
        yield (
            f"a transaction {said} {means[0]:.4g} rows with {names[1]}, "
            f"{means[1]:.4g} with {names[0]}"
        )


def _is_other(pairs: Sequence[tuple[float, float]], tolerance: float) -> bool:
    """Whether the second figures are others than the first, by more than chance and tolerance."""
    if len(pairs) < _FEWEST_PAIRS:
        return False
    ratio = paired_ratio(*zip(*pairs, strict=True), confidence=1 - _ALPHA)
    assert ratio.low is not None
    assert ratio.high is not None
    is_chance = ratio.low <= 1 <= ratio.high
    return not is_chance and abs(ratio.ratio - 1) > tolerance


def _percent(rate: float) -> str:
    """``0 %``, ``0.021 %``, ``5.31 %``: a few significant digits, since rates are small."""
    return f"{rate * 100:.3g} %"
