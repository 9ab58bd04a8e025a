"""Prepare a server for driven clients: warm its tables, check the cache, wait until it settles.

It settles when it has done its pending work: dirty pages, purge, merges of the change buffer.
Pending work of one step would otherwise fall into the next. millrace makes a managed server write
at once, by settings that it restores afterwards; old versions would keep dirty pages for ever. It
only observes an external server. The family decides when a server has settled.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from millrace.databases.base import PendingSample, PoolStatus, ServerClient, TableSize
from millrace.databases.client import QUERY_LIMIT_S
from millrace.model import measurements as names
from millrace.servers.instances.instance import Instance
from millrace.servers.snapshots import data_files
from millrace.store.records import StepRecord
from millrace.trial import buffer_pool, measurements
from millrace.trial.buffer_pool import Occupancy
from millrace.trial.hooks import LiveServer
from millrace.trial.load_run import Emit, run_phases
from millrace.trial.outputs import TrialOutputs
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.steps import Step
from millrace.trial.time_limits import limit_s

_POLL_S = 0.25


@dataclass(frozen=True)
class Quiesced:
    """The end of the wait: work that still goes on, variables changed for it (and restored)."""

    settled: bool
    duration_s: float
    unsettled: tuple[str, ...]
    forced_flushing: tuple[str, ...]


def quiesce(client: ServerClient, *, limit_s: float) -> Quiesced:
    """Wait up to ``limit_s`` until it settles; write back a managed server. Raise TrialFailed."""
    began = time.monotonic()
    storage = client.family.storage
    samples = [PendingSample(0.0, storage.pending(client))]
    with storage.forced_flushing(client) as changed:
        while (left := storage.unsettled(samples)) and samples[-1].at_s < limit_s:
            time.sleep(_POLL_S)
            work = storage.pending(client)
            samples.append(PendingSample(time.monotonic() - began, work))
    if isinstance(client, Instance):
        data_files.write_back(client.data_dir)
    return Quiesced(
        settled=not left,
        duration_s=time.monotonic() - began,
        unsettled=left,
        forced_flushing=tuple(changed),
    )


# Passes over the tables: the last one may have evicted the first where the server reserves a part
# of its pool for pages that were read once.
_PASSES = 3

# An external server cannot be made to write at once, and some keep dirty pages for ever.
_EXTERNAL_SETTLE_S = 30.0


@dataclass
class ClientPreparation:
    """The preparation of one server for clients on its tables; ``tables`` are known after it."""

    workload: ResolvedWorkload
    server: LiveServer
    outputs: TrialOutputs
    emit: Emit
    tables: tuple[TableSize, ...] = field(init=False, default=())
    _last_pass_reads: int | None = field(init=False, default=None)

    def warming_steps(self) -> Iterator[Step]:
        """Yield the steps that follow the record of the server."""
        workload = self.workload
        if workload.warming_phases:
            warm_s = _PASSES * limit_s(workload.warming_phases, workload) + QUERY_LIMIT_S
            yield Step("warm", self._warm, warm_s)
        yield Step("fits", self._check_fit, QUERY_LIMIT_S)

    def settling_step(self) -> Step:
        """Return the step right before the measurement."""
        return Step("settle", self._settle, self._settle_limit_s() + 2 * QUERY_LIMIT_S)

    def prepared(self) -> LiveServer:
        """Return the server with what is known of its tables after the steps."""
        return replace(self.server, tables=self.tables)

    def _warm(self, limit_s: float) -> Sequence[StepRecord]:
        """Read the tables into memory, repeatedly for a cached run until they are resident."""
        done: list[StepRecord] = []
        for _ in range(_PASSES):
            began_s = sum(step.duration_s for step in done)
            before = self._pages_read()
            warming = self.workload.warming_phases
            result = run_phases(warming, self.workload, self.server, self.emit, limit_s)
            passed = measurements.step_records(result)
            done += [replace(step, started_s=began_s + step.started_s) for step in passed]
            self._last_pass_reads = self._pages_read() - before
            if self.workload.client_settings.cache_mode != "cached":
                break
            if self._occupancy().is_resident is not False:
                break
        return done

    def _check_fit(self, _limit_s: float) -> None:
        option = self.server.client.family.storage.pool_option
        requested = self.workload.client_settings.cache_mode
        buffer_pool.require_fit(requested, self._occupancy(), option, passes=_PASSES)

    def _occupancy(self) -> Occupancy:
        client = self.server.client
        self.tables = client.family.administration.table_sizes(client, self.server.database)
        return buffer_pool.occupancy(
            self.tables, self._pool(), last_pass_reads=self._last_pass_reads
        )

    def _pages_read(self) -> int:
        pool = self._pool()
        return pool.reads + pool.read_ahead

    def _pool(self) -> PoolStatus:
        client = self.server.client
        return client.family.storage.pool_status(client)

    def _settle(self, _limit_s: float) -> None:
        role = self.server.role
        quiesced = quiesce(self.server.client, limit_s=self._settle_limit_s())
        self.outputs.add_measurement(names.SETTLE_DURATION_S, quiesced.duration_s, role)
        self.outputs.add_measurement(names.SETTLED, int(quiesced.settled), role)
        self.outputs.add_facts(role, unsettled=list(quiesced.unsettled))

    def _settle_limit_s(self) -> float:
        limit_s = self.workload.load_settings.settle_s
        return limit_s if self.server.client.is_managed else min(limit_s, _EXTERNAL_SETTLE_S)
