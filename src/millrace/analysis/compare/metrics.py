"""The metrics of a workload, as its definition says, and a trial's value of them."""

from millrace.analysis.compare import latencies
from millrace.model.measurements import NEED_NO_STEADY_STATE
from millrace.model.run_spec import MetricDefinition, WorkloadDefinition
from millrace.model.trials import Purpose
from millrace.store.records import StoredAttempt, StoredRun


class Metric(MetricDefinition):
    """A figure; ``direction`` is the better one, and an empty ``denominator`` stands for 1."""

    name: str

    @property
    def needs_steady_state(self) -> bool:
        """Return whether the value depends on how steady the clients were."""
        return not self.numerator or not NEED_NO_STEADY_STATE.issuperset(
            (*self.numerator, *self.denominator)
        )

    @property
    def shows_skipped(self) -> bool:
        """Return whether the skipped transactions of an open loop would have changed the value.

        That holds for response times and for rates.
        """
        return self.time == "response" or self.unit.endswith("/s")

    def value(self, attempt: StoredAttempt) -> float | None:
        """Return the value in ``unit``; None where a measurement is missing or not positive.

        A ratio of treatments needs positive values, and a trial of no rows or no time is not one.
        Raise DamagedResult for an unreadable histogram.
        """
        if self.percentile is not None:
            assert self.of is not None  # a definition with a percentile has both
            assert self.time is not None
            measured_latencies = latencies.merged([attempt], of=self.of, time=self.time)
            if measured_latencies is None:
                return None
            return measured_latencies.percentile(self.percentile) / latencies.NS_PER_S or None
        measured = attempt.measured
        if any(name not in measured for name in (*self.numerator, *self.denominator)):
            return None
        numerator = sum(measured[name] for name in self.numerator)
        denominator = sum(measured[name] for name in self.denominator) if self.denominator else 1.0
        return numerator / denominator if numerator > 0 and denominator > 0 else None

    def is_zero(self, attempt: StoredAttempt) -> bool:
        """Return whether the value is a measured amount of 0, as a lag may be; no rate is one."""
        named = self.numerator and not self.denominator
        return bool(named) and all(attempt.measured.get(name) == 0 for name in self.numerator)


def read_metrics(workload: WorkloadDefinition) -> tuple[Metric, ...]:
    """Return a workload's metrics, the primary one first, else in its own order."""
    metrics = [Metric(name=name, **dict(each)) for name, each in workload.metrics.items()]
    return tuple(sorted(metrics, key=lambda metric: not metric.primary))


def values_by_block(
    stored: StoredRun, metric: Metric, purpose: Purpose
) -> dict[str, dict[int, float]]:
    """Return each treatment's values of a metric, of finished trials with that purpose."""
    last = stored.last_attempts()
    found: dict[str, dict[int, float]] = {}
    for trial in stored.trials:
        attempt = last.get(trial.id)
        if attempt is None or attempt.outcome != "finished" or trial.purpose != purpose:
            continue
        if (value := metric.value(attempt)) is not None:
            found.setdefault(trial.treatment_id, {})[trial.block] = value
    return found


def time_of(rate: Metric, metrics: tuple[Metric, ...]) -> Metric | None:
    """Return the metric whose time ``rate`` divides by (seconds for rows/s), if there is one."""
    return next((m for m in metrics if rate.denominator and m.numerator == rate.denominator), None)
