"""What a workload measures, as its definition says, and a trial's value of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from millrace.store.records import StoredAttempt

Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Metric:
    """A figure derived from measurements: the sum of ``numerator`` / the sum of ``denominator``.

    ``direction`` is the better one. An empty ``denominator`` stands for 1.
    """

    name: str
    title: str
    unit: str
    direction: Direction
    numerator: tuple[str, ...]
    denominator: tuple[str, ...]
    primary: bool

    def value(self, attempt: StoredAttempt) -> float | None:
        """The metric's value in ``unit``; None where a measurement is missing or not positive.

        A ratio of treatments needs positive values, and a trial of no rows or no time is not one.
        """
        measured = {m.name: m.value for m in attempt.measurements if m.role == "server"}
        if any(name not in measured for name in (*self.numerator, *self.denominator)):
            return None
        numerator = sum(measured[name] for name in self.numerator)
        denominator = sum(measured[name] for name in self.denominator) if self.denominator else 1.0
        return numerator / denominator if numerator > 0 and denominator > 0 else None


def read_metrics(workload: Mapping[str, Any]) -> tuple[Metric, ...]:
    """The metrics of a workload's definition, the primary one first, else in its own order."""
    metrics = [
        Metric(
            name=name,
            title=definition["title"],
            unit=definition["unit"],
            direction=cast(Direction, definition["direction"]),
            numerator=tuple(definition["numerator"]),
            denominator=tuple(definition.get("denominator", ())),
            primary=bool(definition.get("primary", False)),
        )
        for name, definition in workload["metrics"].items()
    ]
    return tuple(sorted(metrics, key=lambda metric: not metric.primary))


def time_of(rate: Metric, metrics: tuple[Metric, ...]) -> Metric | None:
    """The metric that is the time ``rate`` divides by (seconds beside rows/s), if there is one."""
    return next((m for m in metrics if rate.denominator and m.numerator == rate.denominator), None)
