"""Divide a history into segments of comparable points, and name its series.

Points that were measured in the same environment (host and configuration) are a *segment*. Where it
differs from that of the point before, the history has an *environment change*: a difference across
it may come from the host.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from millrace.levels import level_text
from millrace.stats.change_points import FEWEST_TO_TELL
from millrace.store.history_records import PointRecord, SeriesRecord, StateRecord
from millrace.store.records import Origin

_DIGESTS = ("configuration ", "reference ")  # begin the names of facts that say nothing themselves


@dataclass(frozen=True)
class EnvironmentChange:
    """The first point (``index``, ``label``) in another environment, and what differs.

    ``origin`` is that of the points.
    """

    index: int
    label: str
    changes: tuple[str, ...]
    origin: Origin = "local"


def segments(points: Sequence[PointRecord]) -> tuple[tuple[int, ...], ...]:
    """Return the indices of the points of each state, in their order."""
    found: dict[str, list[int]] = {}
    for index, point in enumerate(points):
        found.setdefault(point.state, []).append(index)
    return tuple(map(tuple, found.values()))


def too_few_points(points: Sequence[PointRecord]) -> bool:
    """Return whether no state has the points of two levels, so that no change can be found."""
    return max(map(len, segments(points)), default=0) < FEWEST_TO_TELL


def environment_changes(
    points: Sequence[PointRecord], states: Mapping[str, StateRecord]
) -> tuple[EnvironmentChange, ...]:
    """Return the points at which the environment changes."""
    return tuple(
        EnvironmentChange(
            index,
            after.label,
            tuple(_changes(states[before.state], states[after.state])),
            after.origin,
        )
        for index, (before, after) in enumerate(pairwise(points), start=1)
        if before.state != after.state
    )


def _changes(before: StateRecord, after: StateRecord) -> Iterator[str]:
    if before.host_id != after.host_id:
        yield f"the host was {before.host_id} and is {after.host_id}"
    for name in dict.fromkeys([*before.facts, *after.facts]):
        was, is_now = before.facts.get(name), after.facts.get(name)
        if was == is_now:
            continue
        if name.startswith(_DIGESTS):
            yield f"another {name}"
        else:
            yield f"{name} was {_known(was)} and is {_known(is_now)}"


def _known(value: object) -> object:
    return "unknown" if value is None else value


def series_names(series: Iterable[SeriesRecord]) -> dict[str, str]:
    """Name each series by experiment, differing factor levels and metric, local ones first.

    An imported one has the word before its name, and does not change the name of a local one.
    """
    by_experiment: dict[tuple[Origin, str], list[SeriesRecord]] = {}
    for each in series:
        by_experiment.setdefault((each.origin, each.experiment), []).append(each)
    local_first = sorted(by_experiment.items(), key=lambda item: item[0][0] != "local")
    return {
        each.id: name if origin == "local" else f"{origin}: {name}"
        for (origin, _), of_experiment in local_first
        for each, name in _names(of_experiment)
    }


def _names(series: Sequence[SeriesRecord]) -> Iterator[tuple[SeriesRecord, str]]:
    factors = dict.fromkeys(factor for each in series for factor in each.fixed_factors)
    varied = [
        factor
        for factor in factors
        if len({repr(each.fixed_factors.get(factor)) for each in series}) > 1
    ]
    many_references = len({(each.factor, repr(each.reference)) for each in series}) > 1
    many_digests = len({each.digest for each in series}) > 1
    for each in series:
        parts = [each.experiment]
        parts += [
            level_text(name, each.fixed_factors[name])
            for name in varied
            if name in each.fixed_factors
        ]
        if each.candidate is not None:
            parts.append(level_text(each.factor, each.candidate))
        if many_references:
            parts.append(f"to {level_text(each.factor, each.reference)}")
        if many_digests:
            parts.append(f"digest {each.digest}")
        yield each, " · ".join([*parts, each.title])
