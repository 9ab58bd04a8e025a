"""What a workload measures, as its definition says, and a trial's value of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from millrace.analysis.compare import latencies
from millrace.analysis.compare.latencies import Of, Time
from millrace.store.records import StoredAttempt

Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Percentile:
    """So many ``percent`` of all transactions or statements took no longer, in s."""

    percent: float
    of: Of
    time: Time


@dataclass(frozen=True)
class Metric:
    """A figure derived from measurements: the sum of ``numerator`` / the sum of ``denominator``,
    or a ``percentile`` of the latencies.

    ``direction`` is the better one. An empty ``denominator`` stands for 1.
    """

    name: str
    title: str
    unit: str
    direction: Direction
    numerator: tuple[str, ...]
    denominator: tuple[str, ...]
    primary: bool
    percentile: Percentile | None = None

    def value(self, attempt: StoredAttempt) -> float | None:
        """The metric's value in ``unit``; None where a measurement is missing or not positive.

        A ratio of treatments needs positive values, and a trial of no rows or no time is not one.
        Raises DamagedResult for a histogram that cannot be read.
        """
        if self.percentile is not None:
            measured_latencies = latencies.merged(
                [attempt], of=self.percentile.of, time=self.percentile.time
            )
            if measured_latencies is None:
                return None
            return measured_latencies.percentile(self.percentile.percent) / latencies.NS_PER_S
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
            numerator=tuple(definition.get("numerator", ())),
            denominator=tuple(definition.get("denominator", ())),
            primary=bool(definition.get("primary", False)),
            percentile=_percentile(definition),
        )
        for name, definition in workload["metrics"].items()
    ]
    return tuple(sorted(metrics, key=lambda metric: not metric.primary))


def _percentile(definition: Mapping[str, Any]) -> Percentile | None:
    percent = definition.get("percentile")
    if percent is None:
        return None
    of, time = cast(Of, definition["of"]), cast(Time, definition["time"])
    return Percentile(float(percent), of, time)


def time_of(rate: Metric, metrics: tuple[Metric, ...]) -> Metric | None:
    """The metric that is the time ``rate`` divides by (seconds beside rows/s), if there is one."""
    return next((m for m in metrics if rate.denominator and m.numerator == rate.denominator), None)
