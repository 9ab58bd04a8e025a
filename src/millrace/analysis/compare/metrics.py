"""Compute the metrics of a workload for each trial, and merge histograms of latencies.

Percentiles are never averaged: they are those of merged histograms. Response time (from the moment
a request was to be sent) is recorded in open loop only; in closed loop service time stands for it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from millrace.errors import DamagedResult, UserError
from millrace.model.measurements import NEED_NO_STEADY_STATE
from millrace.model.run_spec import MetricDefinition, Of, Time, WorkloadDefinition
from millrace.model.trials import Purpose
from millrace.stats.histogram import Histogram, decode, merge
from millrace.store.records import HistogramRecord, StoredAttempt, StoredRun

NS_PER_S = 1e9
_SHORTEST_NS = 1.0  # that a clock tells; 0 has no logarithm
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99)


@dataclass(frozen=True)
class Latency:
    """A transaction or statement over a treatment's trials: the exact mean, a histogram of ns."""

    of: Of
    name: str
    time: Time
    mean_s: float
    histogram: Histogram

    @property
    def count(self) -> int:
        return self.histogram.count

    def percentiles_s(self, percents: Sequence[float]) -> tuple[float, ...]:
        found = self.histogram.percentiles(percents)
        return tuple(max(float(ns), _SHORTEST_NS) / NS_PER_S for ns in found)

    def by_percentile(self) -> dict[float, float]:
        return dict(zip(PERCENTILES, self.percentiles_s(PERCENTILES), strict=True))

    @property
    def maximum_s(self) -> float:
        return self.histogram.maximum / NS_PER_S


def merged(attempts: Sequence[StoredAttempt], *, of: Of, time: Time) -> Histogram | None:
    """Merge the histograms of ``attempts``, if any; raise DamagedResult for an unreadable one."""
    wanted = [(a, h) for a in attempts for h in a.histograms if h.of == of and h.kind == time]
    if not wanted and time == "response":
        return merged(attempts, of=of, time="service")
    found = _merge(wanted)
    return found if found is not None and found.count else None


def by_name(attempts: Sequence[StoredAttempt]) -> tuple[Latency, ...]:
    """Return latencies of transactions, then statements; raise DamagedResult as ``merged`` does."""
    alike: dict[tuple[Of, str, Time], list[tuple[StoredAttempt, HistogramRecord]]] = {}
    for attempt in attempts:
        for record in attempt.histograms:
            alike.setdefault((record.of, record.name, record.kind), []).append((attempt, record))
    found = []
    for (of, name, time), records in sorted(
        alike.items(), key=lambda item: item[0][0] != "transaction"
    ):
        histogram = _merge(records)
        # An import may count no values where its histograms have some.
        count = sum(record.count for _, record in records)
        if histogram is not None and histogram.count and count:
            mean_s = sum(record.sum_s for _, record in records) / count
            found.append(Latency(of, name, time, mean_s, histogram))
    return tuple(found)


def _merge(records: Iterable[tuple[StoredAttempt, HistogramRecord]]) -> Histogram | None:
    histograms = [_decoded(attempt, record) for attempt, record in records]
    if not histograms:
        return None
    try:
        return merge(histograms)
    except ValueError as error:
        raise UserError(
            f"latencies cannot be merged: {error}",
            hint="measure again, with one version of the load generator for all trials",
        ) from error


def _decoded(attempt: StoredAttempt, record: HistogramRecord) -> Histogram:
    try:
        return _decode(record.encoded)
    except ValueError as error:
        raise DamagedResult(
            f"trial {attempt.trial_id}: the histogram of {record.name} ({record.kind} time) {error}"
        ) from error


_decode = lru_cache(maxsize=1024)(decode)  # each metric asks again; they are some 10 kB each


class Metric(MetricDefinition):
    """A figure; ``direction`` is the better one, and an empty ``denominator`` stands for 1."""

    name: str

    @property
    def needs_steady_state(self) -> bool:
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
            histogram = merged([attempt], of=self.of, time=self.time)
            if histogram is None:
                return None
            return histogram.percentile(self.percentile) / NS_PER_S or None
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
