"""Plan the experiment that confirms or withdraws a change of a history, and evaluate its run.

It compares two builds directly: the nearest builds before and after the change that can still be
measured. It uses the experiment of the run that recorded these builds. The outcome also applies to
changes of other metrics of the same trials.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from millrace.analysis.history.changes import range_of
from millrace.analysis.history.confirmation import Ends, Outcome, outcome
from millrace.analysis.history.segments import segments
from millrace.campaign.run_records import experiment_of_run
from millrace.errors import TrialFailed, UserError
from millrace.experiment.levels import CONFIGURATION, SERVER
from millrace.experiment.model import Compare, Experiment, Factor, short_name
from millrace.levels import Level, level_value
from millrace.model.measurements import INSTRUCTIONS
from millrace.model.run_spec import CampaignPart, ConfigurationDefinition, FactorSpec
from millrace.model.servers import InstalledServer
from millrace.servers import install
from millrace.stats.power import blocks_wanted
from millrace.store.histories import Histories
from millrace.store.history_records import ChangeRecord, History, PointRecord, SeriesRecord
from millrace.store.records import StoredRun
from millrace.store.store import Store

FEWEST_TO_CONFIRM, MOST_TO_CONFIRM = 6, 40  # unless the user says otherwise

WhyNot = Callable[[PointRecord], str]
"""Return why a point's build cannot be measured any more; an empty string if it can."""


def unobtainable(series: SeriesRecord) -> WhyNot:
    """Return the check whether a build of a series is still on this host or in the catalogue."""
    if series.factor.rpartition(".")[2] != SERVER:
        return lambda _point: ""

    def of_server(point: PointRecord) -> str:
        name = str(point.level)
        try:
            install.require_known([name])
        except UserError:
            return f"server {name} is not available any more"
        try:
            server = install.find(name)
        except UserError:
            return ""  # in the catalogue; it will be installed
        if not isinstance(server, InstalledServer):
            return ""
        same = point.build in (None, server.provenance.program_sha256)
        return "" if same else f"{name} is a different build now"

    return of_server


@dataclass(frozen=True)
class Builds:
    """The points before and after a change whose builds are measured."""

    before: PointRecord
    after: PointRecord

    @property
    def ends(self) -> Ends:
        return Ends(self.before.label, self.after.label)


@dataclass(frozen=True)
class Planned:
    """The builds to measure for a change, and the experiment that measures them."""

    builds: Builds
    experiment: Experiment


def planned(store: Store, change: ChangeRecord, blocks: int | None) -> Planned:
    """Return the experiment that confirms a change of the store.

    If ``blocks`` is None, a suitable number of blocks is added to those measured earlier. Raise
    UserError if the builds, or the run with the experiment, do not exist any more.
    """
    histories = list(store.histories.read([change.series]))
    if not histories:
        raise UserError(
            f"{store.path}: no run of this series that was measured here is left",
            hint="record runs of this host again, or compare both builds with your own experiment",
        )
    (history,) = histories
    if history.series.origin != "local":
        raise UserError(
            f"change {change.id} belongs to an imported series, measured on another host",
            hint="confirm it on that host, or record runs of this host",
        )
    if history.series.metric == INSTRUCTIONS:
        raise UserError(
            f"change {change.id} is about counted instructions; measuring time cannot confirm it",
            hint="count both builds again with `millrace bisect --by instructions`",
        )
    others = [each for each in store.histories.changes() if each.series == change.series]
    builds = builds_of(history, change, others, unobtainable(history.series))
    if blocks is None:
        before = 0 if change.remeasured is None else change.remeasured.n_blocks
        blocks = before + blocks_of(change, builds)
    runs = runs_of(store, history, builds)
    return Planned(builds, confirming_experiment(runs, history.series, change, builds, blocks))


def runs_of(store: Store, history: History, builds: Builds) -> list[StoredRun]:
    """Return the runs that recorded the two points, as far as they still exist.

    If none exists, return the newest run with the same environment and configurations. Imported
    runs are ignored. Raise UserError if none is left.
    """
    known = {run.id for run in store.list_runs()}
    # An imported run's statements and settings could be malicious.
    there = known - store.imported(known)
    wanted = dict.fromkeys([builds.before.run_id, builds.after.run_id])
    found = [run_id for run_id in wanted if run_id in there]
    if not found:
        of_state = (each for each in history.points if each.state == builds.after.state)
        found = [each.run_id for each in of_state if each.run_id in there][-1:]
    if not found:
        raise UserError(
            f"{store.path}: no run of this series that was measured here is left, so there is no "
            "experiment to repeat",
            hint="keep the runs of a history, or compare both builds with your own experiment",
        )
    return [store.load_run(run_id, observations_too=True) for run_id in found]


def builds_of(
    history: History, change: ChangeRecord, others: Sequence[ChangeRecord], why_not: WhyNot
) -> Builds:
    """Return the nearest measurable points with no other change between them; else UserError."""
    points, places = _segment(history, change)
    here = range_of(change, places)
    ranges = [
        range_of(other, places)
        for other in others
        if other.id != change.id and other.state != "withdrawn" and other.label in places
    ]
    first = max((each.latest for each in ranges if each.latest <= here.earliest), default=0)
    later = (each.earliest for each in ranges if each.earliest >= here.latest)
    last = min(later, default=len(points))
    olds = points[first : here.earliest][::-1]
    news = points[here.latest : max(last, here.latest + 1)]
    before = _nearest("before", olds, change, why_not)
    after = _nearest("after", news, change, why_not)
    if before.level == after.level:
        raise UserError(
            f"versions {before.label} and {after.label} were both recorded from "
            f"{level_value(before.level)}, so they cannot be compared",
            hint="give each build of a history its own server name",
        )
    return Builds(before, after)


def _segment(history: History, change: ChangeRecord) -> tuple[list[PointRecord], Mapping[str, int]]:
    for segment in segments(history.points):
        points = [history.points[index] for index in segment]
        places = {point.label: place for place, point in enumerate(points)}
        if change.label in places:
            return points, places
    raise UserError(
        f"the points of change {change.id} at {change.label} were taken out",
        hint="record the runs around it again, then run `millrace history detect`",
    )


def _nearest(
    side: str, points: Sequence[PointRecord], change: ChangeRecord, why_not: WhyNot
) -> PointRecord:
    refused = ""
    for point in points:
        reason = why_not(point)
        if not reason:
            return point
        refused = refused or f": {reason}"
    raise UserError(
        f"no build {side} the change at {change.label} can be measured again{refused}",
        hint="keep each build of a history under its own name: "
        "`millrace servers add main-a1b2c3d --family mysql --dir DIRECTORY`",
    )


def blocks_of(change: ChangeRecord, builds: Builds) -> int:
    """Return the number of blocks that probably show a change of this size, given the noise."""
    spreads = [point.log_sd for point in (builds.before, builds.after) if point.log_sd]
    size = math.expm1(abs(math.log(change.ratio)))
    if not spreads or size <= 0:
        return FEWEST_TO_CONFIRM
    wanted = blocks_wanted(max(spreads), size, looks="any") or MOST_TO_CONFIRM
    return min(max(wanted, FEWEST_TO_CONFIRM), MOST_TO_CONFIRM)


def confirming_experiment(
    stored: Sequence[StoredRun],
    series: SeriesRecord,
    change: ChangeRecord,
    builds: Builds,
    blocks: int,
) -> Experiment:
    """Return the newest run's experiment with the builds before and after ``change``.

    It has the configurations of all given runs. Raise UserError for a level that none of these runs
    has, except a compared server: imported points and series may have any level.
    """
    newest = stored[-1].run
    configurations: dict[str, ConfigurationDefinition] = {}
    for each in stored:
        configurations |= each.run.spec.configurations
    levels = builds.before.level, builds.after.level
    factor = series.factor.rpartition(".")[2]
    if factor not in (SERVER, CONFIGURATION):
        _require_levels(stored, series.factor, levels)
    if factor == CONFIGURATION and not set(levels) <= set(configurations):
        raise UserError(
            f"configurations {levels[0]} and {levels[1]}: the remaining runs do not define both",
            hint="keep the runs of a history of configurations",
        )
    return experiment_of_run(
        newest,
        name=short_name(newest.name, "-confirm"),
        title=f"{newest.title}: {builds.after.label} against {builds.before.label}",
        configurations=configurations,
        factors=tuple(_factor(each, series, levels) for each in newest.spec.factors),
        compare=Compare(series.factor, builds.before.level),
        blocks=blocks,
        margin=series.margin,
        campaign=CampaignPart(confirms=change.id),
        slices=newest.design.slices,
    )


def _require_levels(stored: Sequence[StoredRun], factor: str, levels: tuple[Level, Level]) -> None:
    """Raise UserError for a level that no run of this host has."""
    of_runs = (each for run in stored for each in run.run.spec.factors if each.name == factor)
    known = [each.aliases.get(str(level), level) for each in of_runs for level in each.levels]
    for level in levels:
        if level not in known:
            raise _of_no_run(factor, level)


def _of_no_run(factor: str, level: Level | None) -> UserError:
    named = "it" if level is None else level_value(level)
    return UserError(
        f"{named} is not a level of {factor} in the remaining runs",
        hint="keep the runs of a history; millrace does not measure settings of imported runs",
    )


def _factor(factor: FactorSpec, series: SeriesRecord, levels: tuple[Level, Level]) -> Factor:
    name = factor.name
    if name == series.factor:
        return Factor(name, levels)
    held = series.fixed_factors.get(name)
    if held is None or held not in factor.levels:  # the series began with an import
        raise _of_no_run(name, held)
    aliases = {level: of for level, of in factor.aliases.items() if level == held}
    return Factor(name, (held,), aliases)


def outcomes(
    histories: Histories, change: ChangeRecord, measured: StoredRun, ends: Ends, now_utc: str
) -> list[Outcome]:
    """Return the run's outcome for ``change``, then for candidate changes of its other metrics.

    Raise TrialFailed if no block has results of both builds.
    """
    series = {each.id: each for each in histories.series()}
    own = series[change.series]
    first = outcome(measured, change, own, ends, now_utc)
    if first is None:
        raise TrialFailed(
            f"no block of run {measured.run.id} has results of both builds",
            hint=f"`millrace results show {measured.run.id}` shows the reasons",
        )
    found = [first]
    others = [each.id for each in series.values() if each != own and _same_trials(each, own)]
    changes = histories.changes()
    for history in histories.read(others) if others else ():
        of_series = [each for each in changes if each.series == history.series.id]
        for candidate in _between(history, of_series, ends):
            also = outcome(measured, candidate, history.series, ends, now_utc)
            if also is not None:
                found.append(also)
    return found


def _same_trials(one: SeriesRecord, other: SeriesRecord) -> bool:
    return one == replace(
        other, id=one.id, metric=one.metric, title=one.title, unit=one.unit, direction=one.direction
    )


def _between(history: History, changes: Sequence[ChangeRecord], ends: Ends) -> list[ChangeRecord]:
    """Return the candidate change that is certainly the only change between the ends, if any."""
    for segment in segments(history.points):
        places = {history.points[index].label: place for place, index in enumerate(segment)}
        if not {ends.before, ends.after} <= places.keys():
            continue
        before, after = places[ends.before], places[ends.after]
        there = [each for each in changes if each.state != "withdrawn" and each.label in places]
        ranges = [(range_of(each, places), each) for each in there]
        touching = [of for of in ranges if of[0].latest > before and of[0].earliest <= after]
        if len(touching) == 1 and touching[0][1].state == "candidate":
            lies, candidate = touching[0]
            if before < lies.earliest and lies.latest <= after:
                return [candidate]
    return []
