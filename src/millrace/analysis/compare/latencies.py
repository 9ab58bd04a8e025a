"""Merge the histograms of latencies that attempts recorded, never their percentiles.

Response time (from the moment a request was to be sent) is recorded in open loop only; in closed
loop service time stands for it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from millrace.errors import DamagedResult, UserError
from millrace.model.run_spec import Of, Time
from millrace.stats.histogram import Histogram, decode, merge
from millrace.store.records import HistogramRecord, StoredAttempt

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
        """Return ``PERCENTILES`` in s, by percent."""
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
