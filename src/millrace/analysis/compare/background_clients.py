"""Sum up background clients: the rate that they were to keep, the one they kept, and latencies."""

from collections.abc import Sequence
from dataclasses import dataclass

from millrace.analysis.compare.latencies import Latency
from millrace.model import measurements
from millrace.store.records import StoredAttempt


@dataclass(frozen=True)
class BackgroundFigures:
    """Background clients of a test, over a treatment's finished trials.

    ``rate`` is transactions a second as asked, None where the clients were as fast as they could
    be, ``throughput`` those done. ``late`` of all transactions were sent late. ``longest_s`` is the
    longest one, from its sending to its answer.
    """

    test: str
    rate: float | None
    throughput: float
    late: int
    longest_s: float


def background_figures(
    finished: Sequence[StoredAttempt], driven: str | None
) -> tuple[BackgroundFigures, ...]:
    """Sum up each group of background clients of finished trials; ``driven`` is their phase."""
    if driven is None:
        return ()
    duration = measurements.duration_s(driven)
    measured = [each.measured for each in finished if each.measured.get(duration, 0.0) > 0.0]
    tests = {test for each in measured for test in map(measurements.background_test, each) if test}
    return tuple(_figures(test, measured, duration) for test in sorted(tests))


def _figures(test: str, measured: Sequence[dict[str, float]], duration: str) -> BackgroundFigures:
    found = [each for each in measured if measurements.background_done(test) in each]

    def total(name: str) -> float:
        return sum(each.get(name, 0.0) for each in found)

    asked = measurements.background_scheduled(test)
    longest = measurements.background_longest_s(test)
    return BackgroundFigures(
        test=test,
        rate=total(asked) / total(duration) if any(asked in each for each in found) else None,
        throughput=total(measurements.background_done(test)) / total(duration),
        late=round(total(measurements.background_late(test))),
        longest_s=max(each.get(longest, 0.0) for each in found),
    )


def background_latency(latencies: Sequence[Latency], test: str) -> Latency | None:
    """Return the response times of a group, without a rate its service times; None if unknown."""
    found = {each.time: each for each in latencies if (each.of, each.name) == ("background", test)}
    return found.get("response") or found.get("service")
