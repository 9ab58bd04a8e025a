"""Sum up what statements of maintenance took, and how fast clients were beside them."""

from collections.abc import Sequence
from dataclasses import dataclass

from millrace.model import measurements
from millrace.model.measurements import PARTS, Part
from millrace.store.records import StoredAttempt

_NEEDED = frozenset(
    (
        measurements.MAINTENANCE_S,
        measurements.MAINTENANCE_STATEMENTS,
        measurements.MAINTENANCE_LONGEST_S,
        *measurements.PART_S.values(),
        *measurements.PART_TRANSACTIONS.values(),
    )
)


@dataclass(frozen=True)
class PartFigures:
    """The clients of a treatment in one part of their trials: all of its time together."""

    part: Part
    duration_s: float
    transactions: float

    @property
    def throughput(self) -> float | None:
        """Return transactions a second; None for a part without any time."""
        return self.transactions / self.duration_s if self.duration_s > 0 else None


@dataclass(frozen=True)
class MaintenanceFigures:
    """The statements that ran beside clients, over a treatment's finished trials.

    ``statement_s`` is their mean time. Of it, ``removal_s`` is that of system calls that remove,
    close or shorten files, and ``own_s`` the rest; both are None where a trial did not measure
    them, as ``removal_unknown`` says.
    """

    statements: int
    statement_s: float
    longest_s: float
    removal_s: float | None
    own_s: float | None
    removal_unknown: str | None
    parts: tuple[PartFigures, ...]


def maintenance_figures(finished: Sequence[StoredAttempt]) -> MaintenanceFigures | None:
    """Sum up the maintenance of finished trials; None where there was none."""
    found = [each for each in finished if each.measured.keys() >= _NEEDED]
    measured = [each.measured for each in found]
    statements = sum(each[measurements.MAINTENANCE_STATEMENTS] for each in measured)
    if not statements:
        return None

    def mean_s(name: str) -> float | None:
        values = [each[name] for each in measured if name in each]
        return sum(values) / statements if len(values) == len(measured) else None

    return MaintenanceFigures(
        statements=round(statements),
        statement_s=sum(each[measurements.MAINTENANCE_S] for each in measured) / statements,
        longest_s=max(each[measurements.MAINTENANCE_LONGEST_S] for each in measured),
        removal_s=mean_s(measurements.FILE_REMOVAL_S),
        own_s=mean_s(measurements.MAINTENANCE_OWN_S),
        removal_unknown=next(
            (why for each in found if (why := each.facts.file_removal_unknown)), None
        ),
        parts=tuple(_part(part, measured) for part in PARTS),
    )


def _part(part: Part, measured: Sequence[dict[str, float]]) -> PartFigures:
    duration_s = sum(each[measurements.PART_S[part]] for each in measured)
    transactions = sum(each[measurements.PART_TRANSACTIONS[part]] for each in measured)
    return PartFigures(part, duration_s, transactions)
