"""Define the protocol between a trial and each of its servers, managed or external."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Protocol

from millrace.databases.base import ServerClient
from millrace.errors import TrialFailed
from millrace.model.roles import SERVER
from millrace.servers.snapshots.kept_data import KeptData
from millrace.store.records import StepRecord
from millrace.trial import cpu_idle, measurements, phase_spec, time_limits
from millrace.trial.hooks import LiveServer
from millrace.trial.load_run import Emit, run_load, run_phases
from millrace.trial.outputs import TrialOutputs, instance_record
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from millrace.trial.steps import Step

STOP_LIMIT_S = 600.0  # a clean stop writes every dirty page
_ANALYSE_LIMIT_S = 600.0


@dataclass(frozen=True)
class TrialContext:
    """A trial in progress: its spec, its outputs, and the stack that closes what it opened.

    ``kept`` is where the data directory of one with several loops survives it.
    """

    spec: TrialSpec
    outputs: TrialOutputs
    opened: ExitStack
    emit: Emit
    kept: KeptData | None = None

    def record(self, spec: ServerSpec, client: ServerClient, facts: Mapping[str, object]) -> None:
        """Record a server with its facts before the measurement."""
        settings = self.spec.cpu_idle
        known = {} if settings is None else {"cpu_idle": cpu_idle.fact(settings)}
        record = instance_record(spec, client.version(), client.settings(), {**facts, **known})
        self.outputs.instances[spec.role] = record


class TrialServer(Protocol):
    """A server of a trial, as steps before and after the measurement."""

    @property
    def spec(self) -> ServerSpec: ...

    def ready_steps(self) -> Iterator[Step]:
        """Yield the steps until the server is live with its tables."""

    def live(self) -> LiveServer:
        """Return the live server."""

    def end_steps(self) -> Iterator[Step]:
        """Yield the steps after the measurement."""


def refuse_unavailable(spec: ServerSpec) -> None:
    """Raise TrialFailed for a server that is known to lack the format of the tables."""
    if spec.table_format.unavailable is not None:
        raise TrialFailed(spec.table_format.unavailable)


def steps_of_role(role: str, steps: Iterable[Step]) -> Iterator[Step]:
    """Yield a server's steps under its role's name, unless it is the only one of its trial."""
    for step in steps:
        yield step if role == SERVER else replace(step, name=f"{role}: {step.name}")


def loading_steps(
    trial: TrialContext, server: LiveServer, keep_facts: Callable[..., None]
) -> Iterator[Step]:
    """Yield the steps that make tables for driven clients; ``keep_facts`` gets facts about it."""
    workload = trial.spec.workload
    if not workload.making_phases:
        return

    def make(limit_s: float) -> Sequence[StepRecord]:
        result = run_phases(workload.making_phases, workload, server, trial.emit, limit_s)
        keep_facts(**measurements.loading_facts(result))
        return measurements.step_records(result)

    yield Step("make", make, time_limits.limit_s(workload.making_phases, workload))
    if workload.prior:
        yield ageing_step(trial, server, workload.prior)
    yield analyse_step(server.client, server.database)


def ageing_step(trial: TrialContext, server: LiveServer, prior: Sequence[ResolvedWorkload]) -> Step:
    """Return the step that runs tests, in order, for the sake of the tables that they leave."""

    def age(limit_s: float) -> Sequence[StepRecord]:
        load_spec = phase_spec.ageing_spec(prior, server.dialect, server.connection)
        result = run_load(load_spec, server.check, trial.emit, limit_s)
        measurements.refuse_partial(result)
        measurements.refuse_failed(result)
        measurements.refuse_missed_rates(result)
        return measurements.step_records(result)

    return Step("age", age, time_limits.ageing_limit_s(prior))


def analyse_step(client: ServerClient, database: str) -> Step:
    """Return the step in which the server analyses the tables that it has just loaded.

    Each version otherwise does it some time later, after seconds or a restart, and until then
    chooses its plans by the statistics of an empty table.
    """

    def analyse(limit_s: float) -> None:
        client.family.administration.analyze_tables(client, database, limit_s)

    return Step("analyse", analyse, _ANALYSE_LIMIT_S)
