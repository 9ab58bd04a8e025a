"""The metrics of a workload, as its definition says, and a trial's value of them."""

from dataclasses import dataclass

from millrace.analysis.compare import latencies
from millrace.model.run_spec import Direction, MetricDefinition, Of, Time, WorkloadDefinition
from millrace.store.records import StoredAttempt


@dataclass(frozen=True)
class Percentile:
    """So many ``percent`` of all transactions or statements took no longer, in s."""

    percent: float
    of: Of
    time: Time


@dataclass(frozen=True)
class Metric:
    """A figure: a sum ``numerator`` / a sum ``denominator``, or a ``percentile`` of latencies.

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
        """Return the value in ``unit``; None where a measurement is missing or not positive.

        A ratio of treatments needs positive values, and a trial of no rows or no time is not one.
        Raise DamagedResult for an unreadable histogram.
        """
        if self.percentile is not None:
            measured_latencies = latencies.merged(
                [attempt], of=self.percentile.of, time=self.percentile.time
            )
            if measured_latencies is None:
                return None
            return measured_latencies.percentile(self.percentile.percent) / latencies.NS_PER_S
        measured = attempt.measured
        if any(name not in measured for name in (*self.numerator, *self.denominator)):
            return None
        numerator = sum(measured[name] for name in self.numerator)
        denominator = sum(measured[name] for name in self.denominator) if self.denominator else 1.0
        return numerator / denominator if numerator > 0 and denominator > 0 else None


def read_metrics(workload: WorkloadDefinition) -> tuple[Metric, ...]:
    """Return a workload's metrics, the primary one first, else in its own order."""
    metrics = [
        Metric(
            name=name,
            title=definition.title,
            unit=definition.unit,
            direction=definition.direction,
            numerator=definition.numerator,
            denominator=definition.denominator,
            primary=definition.primary,
            percentile=_percentile(definition),
        )
        for name, definition in workload.metrics.items()
    ]
    return tuple(sorted(metrics, key=lambda metric: not metric.primary))


def _percentile(definition: MetricDefinition) -> Percentile | None:
    if definition.percentile is None:
        return None
    assert definition.of is not None  # a definition with a percentile has both
    assert definition.time is not None
    return Percentile(float(definition.percentile), definition.of, definition.time)


def time_of(rate: Metric, metrics: tuple[Metric, ...]) -> Metric | None:
    """Return the metric whose time ``rate`` divides by (seconds for rows/s), if there is one."""
    return next((m for m in metrics if rate.denominator and m.numerator == rate.denominator), None)
