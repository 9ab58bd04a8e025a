"""What trials need whose clients are driven, on any kind of server: tables warmed and in memory, or
not; what was put off, done; both recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from millrace.databases.base import PoolStatus, TableSize
from millrace.databases.client import QUERY_LIMIT_S, ServerClient
from millrace.errors import TrialFailed
from millrace.loadgen.client import LoadResult
from millrace.model import measurements as names
from millrace.sizes import readable
from millrace.store.records import InstanceRecord, MeasurementRecord, StepRecord
from millrace.trial import buffer_pool, quiesce
from millrace.trial import measurements as yields
from millrace.trial.buffer_pool import Holding
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.steps import Step
from millrace.trial.time_limits import limit_s
from millrace.workloads import Phase

# Passes over the tables: the last to come in may have pushed out the first where the server keeps
# a part of its pool for pages that were read once.
_PASSES = 3

# A server that is not ours cannot be hurried, and some keep dirty pages for ever.
_WATCHED_S = 30.0

RunPhases = Callable[[Sequence[Phase], float], LoadResult]


def note(instances: list[InstanceRecord], facts: Mapping[str, Any]) -> None:
    """Add facts to the record of the server, which was made last. Raises TrialFailed where the
    server's answers cannot be facts."""
    try:
        known = instances[-1].facts.replace(**facts)
    except ValueError as error:
        raise TrialFailed(f"the server's answers cannot be stored: {error}") from error
    instances[-1] = replace(instances[-1], facts=known)


@dataclass
class ClientPreparation:
    """A server whose clients are about to be driven on the tables of ``database``."""

    work: ResolvedWorkload
    instance: ServerClient
    database: str
    run: RunPhases
    measurements: list[MeasurementRecord]
    instances: list[InstanceRecord]
    _tables: tuple[TableSize, ...] = field(init=False, default=())

    def steps(self) -> tuple[Step, ...]:
        """The steps between the record of the server and the measurement."""
        work = self.work
        settling_s = self._settle_limit_s()
        warm_s = _PASSES * limit_s(work.warming, work) + QUERY_LIMIT_S
        return (
            *((Step("warm", self._warm, warm_s),) if work.warming else ()),
            Step("fits", self._fits, QUERY_LIMIT_S),
            Step("settle", self._settle, settling_s + 2 * QUERY_LIMIT_S),
        )

    def _warm(self, limit_s: float) -> Sequence[StepRecord]:
        """Read the tables into memory; a run that is to be cached reads them until they are in."""
        done: list[StepRecord] = []
        for _ in range(_PASSES):
            began_s = sum(step.duration_s for step in done)
            passed = yields.step_records(self.run(self.work.warming, limit_s))
            done += [replace(step, started_s=began_s + step.started_s) for step in passed]
            if self.work.values["fits"] != "cached" or self._holding().does is not False:
                break
        return done

    def _fits(self, _limit_s: float) -> None:
        """Raise TrialFailed where the tables cannot be in memory, or cannot but be, as the run's
        parameter ``fits`` wants it."""
        wanted, held = self.work.values["fits"], self._holding()
        if wanted == "cached" and held.can is False:
            raise TrialFailed(
                f"the run is to be cached, but {_sizes(held)}",
                hint=f"set {self._pool_option} higher, or load fewer rows",
            )
        if wanted == "cached" and held.does is False:
            raise TrialFailed(
                f"the run is to be cached, but after {_PASSES} readings only "
                f"{readable(held.pool_data_bytes)} are in memory: {_sizes(held)}",
                hint=f"set {self._pool_option} higher, or load fewer rows",
            )
        if wanted == "io_bound" and held.can is True:
            raise TrialFailed(
                f"the run is to be I/O-bound, but {_sizes(held)}",
                hint=f"set {self._pool_option} lower, or load more rows",
            )

    @property
    def _pool_option(self) -> str:
        return self.instance.family.storage.pool_option

    def _holding(self) -> Holding:
        family = self.instance.family
        self._tables = family.administration.table_sizes(self.instance, self.database)
        return buffer_pool.holding(self._tables, family.storage.pool_status(self.instance))

    def _settle(self, _limit_s: float) -> None:
        ended = quiesce.quiesce(self.instance, limit_s=self._settle_limit_s())
        self.measurements.append(MeasurementRecord(names.SETTLE_DURATION_S, ended.duration_s))
        self.measurements.append(MeasurementRecord(names.SETTLED, int(ended.settled)))
        note(self.instances, {"unsettled": list(ended.unsettled)})

    def _settle_limit_s(self) -> float:
        wanted_s = float(self.work.values["settle_s"])
        return wanted_s if self.instance.is_managed else min(wanted_s, _WATCHED_S)

    def judge(self, before: PoolStatus, after: PoolStatus) -> None:
        """Record how the tables were read while clients were driven. Raises TrialFailed where that
        is not what the run wants."""
        found = buffer_pool.judge(self._tables, before, after)
        note(self.instances, {"residency": found.verdict, "residency_why": found.why})
        wanted = self.work.values["fits"]
        if wanted in ("any", found.verdict) or found.verdict == "any":
            return
        said = {"cached": "cached", "io_bound": "I/O-bound"}[wanted]
        lower, more = ("higher", "fewer") if wanted == "cached" else ("lower", "more")
        raise TrialFailed(
            f"the run was to be {said}, but {found.why}",
            hint=f"set {self._pool_option} {lower}, or load {more} rows",
        )


def _sizes(held: Holding) -> str:
    return (
        f"the tables take {readable(held.table_bytes)} and the buffer pool has "
        f"{readable(held.pool_bytes)}"
    )
