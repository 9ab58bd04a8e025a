"""Sum up the loops of a treatment's trials, by their numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from millrace.analysis.compare.latencies import Latency, by_name
from millrace.store.records import HistogramRecord, StoredAttempt

_SHORTEST_S = 1e-6  # of a loop that clients can have driven


@dataclass(frozen=True)
class LoopMeans:
    """The means of a loop over a treatment's finished trials, for ``report``.

    ``restarted_cold`` is in how many of the ``trials`` the server started again before it. The
    bytes are those of the data directory at its end, None for attached servers. ``latencies`` are
    those of the workload's transactions, of all trials together; only ``shown`` loops have them.
    """

    loop: int
    trials: int
    throughput: float
    restarted_cold: int
    apparent_bytes: float | None
    allocated_bytes: float | None
    latencies: tuple[Latency, ...] = ()


def loop_means(finished: Sequence[StoredAttempt]) -> tuple[LoopMeans, ...]:
    """Return the loops that all finished trials have; none where these had one loop each."""
    trials = [attempt for attempt in finished if attempt.loops]
    most = min((len(attempt.loops) for attempt in trials), default=0)
    return tuple(
        _summary(trials, loop, is_shown=loop in shown(most)) for loop in range(1, most + 1)
    )


def shown(most: int) -> tuple[int, ...]:
    """Return the loops that tables show: powers of two, the half of ``most`` and the last one."""
    powers = (1 << exponent for exponent in range(most.bit_length()))
    return tuple(sorted({*powers, most // 2, most} - {0}))


def _summary(trials: Sequence[StoredAttempt], loop: int, *, is_shown: bool) -> LoopMeans:
    loops = [attempt.loops[loop - 1] for attempt in trials]
    return LoopMeans(
        loop=loop,
        trials=len(loops),
        throughput=fmean(
            each.transactions / each.duration_s if each.duration_s >= _SHORTEST_S else 0.0
            for each in loops
        ),
        restarted_cold=sum(each.restarted_cold for each in loops),
        apparent_bytes=_mean(each.apparent_bytes for each in loops),
        allocated_bytes=_mean(each.allocated_bytes for each in loops),
        latencies=by_name([_of_loop(attempt, loop) for attempt in trials]) if is_shown else (),
    )


def _of_loop(attempt: StoredAttempt, loop: int) -> StoredAttempt:
    """Return an attempt with the histograms of one of its loops."""
    histograms = (
        HistogramRecord("loops", "transaction", e.name, "service", e.encoded, e.count, e.sum_s)
        for e in attempt.loops[loop - 1].operations
    )
    return replace(attempt, histograms=tuple(histograms))


def _mean(values: Iterable[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
