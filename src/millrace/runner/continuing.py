"""Which run a command continues: one that measures the same thing, on this host as it was then.

The same command continues its run. Another file, level, parameter or configuration is another run;
so is a host or a build that is not what it was, because trials of one block must not live in two
worlds. A report's own matters (base, margin, published figures) do not make another run.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from millrace.errors import MillraceError
from millrace.experiment.model import Experiment, Plan
from millrace.experiment.plan import expand
from millrace.runner.run import experiment_spec, new_run_record, utc_now
from millrace.servers import install
from millrace.servers.model import InstalledServer
from millrace.store.records import HostRecord, RunRecord
from millrace.store.store import Store

_SEEDS = 1 << 31

# What a reboot, an update or a setting changes, and no block may straddle.
_WATCHED_FACTS = (
    "kernel.release",
    "libc",
    "memory.total_bytes",
    "frequency.governor",
    "frequency.turbo",
    "huge_pages.transparent",
    "filesystem.mount_point",
    "filesystem.type",
    "filesystem.source",
    "limits.cpus",
    "limits.memory_bytes",
)
_WATCHED_VERSIONS = ("load_generator", "data")
_MATTERS_OF_THE_REPORT = ("source", "compare", "published", "extensions")


@dataclass(frozen=True)
class Chosen:
    """A run to carry out, with its plan; ``is_new`` when the store does not know it yet.

    ``extension`` is what is recorded when blocks are added to it; ``told`` says why an earlier run
    is not continued.
    """

    run: RunRecord
    plan: Plan
    is_new: bool = False
    extension: Mapping[str, Any] | None = None
    told: str | None = None


def choose(
    store: Store,
    experiment: Experiment,
    *,
    host: HostRecord,
    versions: Mapping[str, str],
    command: str,
    fresh: bool,
) -> Chosen:
    """The newest run that can be continued, or a new one; always a new one when ``fresh``."""
    seed = secrets.randbelow(_SEEDS) if experiment.seed is None else experiment.seed
    plan = expand(experiment, seed=seed)
    told = None
    if not fresh:
        for run in store.runs_of(plan.digest, host.id, experiment.seed):
            if not measures_the_same(run, experiment):
                continue
            changes = [*_changes(run, host.facts, versions), *_rebuilt(store, run)]
            if not changes:
                return _continued(run, experiment, command)
            told = f"run {run.id} is not continued, a new one begins: {'; '.join(changes)}"
            break
    return Chosen(new_run_record(plan, host, versions, command), plan, is_new=True, told=told)


def _continued(run: RunRecord, experiment: Experiment, command: str) -> Chosen:
    plan = expand(experiment, seed=run.seed)
    if experiment.blocks <= run.blocks:
        return Chosen(run, plan)
    extension = {"blocks": experiment.blocks, "utc": utc_now(), "command": command}
    return Chosen(replace(run, blocks=experiment.blocks), plan, extension=extension)


def measures_the_same(run: RunRecord, experiment: Experiment) -> bool:
    """Whether a run of the same digest also varies the same factors and levels."""
    return _essence(run.spec) == _essence(experiment_spec(experiment))


def _essence(spec: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key not in _MATTERS_OF_THE_REPORT}
    return {**kept, "compared factor": spec["compare"]["factor"]}


def _changes(
    run: RunRecord, facts: Mapping[str, Any], versions: Mapping[str, str]
) -> Iterator[str]:
    """What is not as it was when the run began, each in words."""
    for name in _WATCHED_VERSIONS:
        if run.versions.get(name) != versions.get(name):
            label = name.replace("_", " ")
            yield f"the {label} was {run.versions.get(name)} and is {versions.get(name)}"
    for path in _WATCHED_FACTS:
        before, now = _at(run.host.facts, path), _at(facts, path)
        if before != now:
            yield f"{path.replace('.', ' ').replace('_', ' ')} was {before} and is {now}"


def _at(facts: Mapping[str, Any], path: str) -> object:
    value: Any = facts
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _rebuilt(store: Store, run: RunRecord) -> Iterator[str]:
    """The servers whose program is not the one the run's trials ran."""
    ran = {
        instance.server.name: instance.server.build.get("program_sha256")
        for attempt in store.load_run(run.id).attempts
        for instance in attempt.instances
    }
    for name, sha256 in ran.items():
        try:
            server = install.find(name)
        except MillraceError:
            continue  # not here any more: it will be installed again, or refused
        if isinstance(server, InstalledServer) and server.provenance.program_sha256 != sha256:
            yield f"{name} was built again"
