"""Prepare the trials of a run: install servers, fit options and provide data."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from millrace import paths
from millrace.campaign import prepare
from millrace.campaign.forecast import forecast_here, refuse_without_space
from millrace.campaign.inputs import PreparedTreatment, RunInput
from millrace.experiment.model import Plan
from millrace.host import cpuset
from millrace.model.events import DownloadMoved, Notice, OnEvent
from millrace.model.servers import InstalledServer
from millrace.store.records import StoredRun
from millrace.store.store import Store
from millrace.trial import cpu_idle
from millrace.trial.cpu_idle import CpuIdlePolicy
from millrace.trial.data_file import data_file as generated_file


class Downloads:
    """Emit the progress of downloads and installations (see ``servers.progress.Progress``)."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event

    def moved(self, what: str, done_bytes: int, total_bytes: int | None) -> None:
        """Emit the number of bytes downloaded so far."""
        self._on_event(DownloadMoved(what, done_bytes, total_bytes))

    def say(self, text: str) -> None:
        """Emit a sentence."""
        self._on_event(Notice(text))


class Preparation:
    """Prepare the plans of one run; what they need stays until ``stack`` ends.

    All errors that can be found beforehand are raised before anything is measured. Each set of
    treatments is prepared once; all share one data file. ``check`` raises any further error of a
    plan.
    """

    def __init__(
        self,
        stack: ExitStack,
        store: Store,
        on_event: OnEvent,
        *,
        check: Callable[[Plan], None] | None = None,
    ) -> None:
        self._stack = stack
        self._store = store
        self._on_event = on_event
        self._check = check
        self._prepared: dict[tuple[str, ...], RunInput] = {}
        self._data_file: Path | None = None

    def __call__(self, plan: Plan, stored: StoredRun | None) -> RunInput:
        """Return the input of a plan's trials; ``stored`` is the run so far.

        Raise MillraceError where the plan is refused.
        """
        key = tuple(treatment.id for treatment in plan.treatments)
        if key not in self._prepared:
            prepare.refuse_missing_cpus(plan.experiment)
            prepare.refuse_attached(plan)
            if self._check is not None:
                self._check(plan)
            estimate = forecast_here(plan, self._store)
            refuse_without_space(estimate)
            inputs = run_input(self._stack, plan, stored, self._on_event, data_file=self._data_file)
            self._data_file = inputs.data_file
            self._prepared[key] = replace(inputs, estimate_s=estimate.time_s)
        return self._prepared[key]


def run_input(
    stack: ExitStack,
    plan: Plan,
    earlier: StoredRun | None,
    on_event: OnEvent,
    *,
    data_file: Path | None = None,
) -> RunInput:
    """Return the input of a plan's trials, available until ``stack`` ends.

    ``data_file`` is the experiment's data file where one exists already.
    """
    work_dir = prepare.work_directory(paths.work_dir())
    servers = prepare.installed_servers(plan, Downloads(on_event))
    treatments = prepare.treatments(plan, servers)
    for text in prepare.indifferent_options(treatments.values()):
        on_event(Notice(text))
    expected = prepare.expected_data(plan.experiment)
    reading = (each.workload for each in treatments.values() if each.workload.reads_a_file)
    if data_file is None and (workload := next(reading, None)) is not None:
        data_file = stack.enter_context(generated_file(workload, work_dir))
    return RunInput(
        treatments,
        expected,
        data_file,
        _cpu_idle_policy(plan, treatments.values(), earlier),
        cpuset.cpu_partitions() if plan.experiment.side_by_side else None,
    )


def _cpu_idle_policy(
    plan: Plan, treatments: Collection[PreparedTreatment], earlier: StoredRun | None
) -> CpuIdlePolicy | None:
    servers = (server for treatment in treatments for server in treatment.servers)
    is_managed = all(isinstance(each.server, InstalledServer) for each in servers)
    return cpu_idle.policy_of(
        [treatment.workload for treatment in treatments],
        plan.experiment.compare.factor,
        earlier,
        placeable=is_managed and not plan.experiment.parameters.get("client_cpus"),
    )
