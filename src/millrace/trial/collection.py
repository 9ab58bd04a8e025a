"""The observers of a trial: who they are, of which server, over which part of the measurement."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from millrace.collect import thread_states
from millrace.collect.collectors import CollectorSet, Window, collecting
from millrace.collect.model import Target
from millrace.collect.registry import COLLECTORS
from millrace.databases.client import QUERY_LIMIT_S, ServerClient
from millrace.loadgen import client as load
from millrace.loadgen import statement_activity as boards
from millrace.loadgen.spec import RunSpec
from millrace.loadgen.statement_activity import Board
from millrace.servers.instances.lifecycle import Instance
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.workloads import Phase

TELL_LIMIT_S = 300.0  # resolving the symbols of a profile takes longest


def board(names: tuple[str, ...], work: ResolvedWorkload) -> AbstractContextManager[Board | None]:
    """Where clients show their statements, where they are driven and somebody looks."""
    return boards.made() if work.workload.drives and thread_states.NAME in names else nullcontext()


def observed(
    names: tuple[str, ...],
    work: ResolvedWorkload,
    instance: ServerClient,
    database: str,
    run_spec: RunSpec,
    *,
    shown: Board | None = None,
    is_side: bool = False,
) -> AbstractContextManager[CollectorSet]:
    """The observers called ``names`` for the measurement that ``run_spec`` is, in which clients
    show their statements on the board ``shown``. In the process of one side of a pair (``is_side``)
    the other side does not count as others of the host: both are their parent's."""
    statements = load.statements(run_spec) if work.workload.drives and names else {}
    target = target_of(instance, database, statements, shown, work.connections or 1)
    if is_side:
        target = replace(target, own_pid=os.getppid())
    return collecting(COLLECTORS, names, target, window(work))


def target_of(
    instance: ServerClient,
    database: str,
    statements: Mapping[str, str],
    shown: Board | None = None,
    connections: int = 1,
) -> Target:
    """A trial's server as observers see it."""
    ours = instance if isinstance(instance, Instance) else None
    return Target(
        instance=instance,
        pid=None if ours is None else ours.pid,
        data_dir=None if ours is None else ours.data_dir,
        database=database,
        statements=statements,
        limit_s=QUERY_LIMIT_S,
        board=shown,
        connections=connections,
    )


def window(work: ResolvedWorkload) -> Window:
    """The part that is measured: clients driven, or the phases whose time the primary metric is."""
    timed = set(work.workload.measured.timed)
    names = [phase.name for phase in work.measuring if phase.name in timed]
    return Window(names[0], names[-1], drives=work.workload.drives)


def until_measured(work: ResolvedWorkload) -> tuple[Phase, ...]:
    """The phases to the end of the part that is measured: what follows them only looks at it."""
    names = [phase.name for phase in work.measuring]
    return work.measuring[: names.index(window(work).last) + 1]
