"""Execute runs for the use cases: select a run, prepare it, and pass it to the scheduler."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from millrace import __version__, paths
from millrace.app import doctor
from millrace.app.experiments import left_out_of_files, require_profile, with_profile, within_limit
from millrace.app.report import RunReport, report_of
from millrace.app.servers import exclusive_host
from millrace.campaign import resume, scheduler
from millrace.campaign.forecast import forecast_here
from millrace.campaign.policies.experiment import Fixed, Sequential
from millrace.campaign.preparation import Preparation
from millrace.campaign.resume import RunSelection
from millrace.campaign.run_records import new_run_record
from millrace.campaign.scheduler import TIME_LIMIT, Executed, Policy, Prepare, Rules, rules_of
from millrace.errors import HostError, Interrupted, PermanentHostError
from millrace.experiment.budget import fitted, notes
from millrace.experiment.estimate import shortfall
from millrace.experiment.model import Experiment, Plan, slices_possible
from millrace.host import facts as host
from millrace.loadgen import datasets
from millrace.model.events import Notice, OnEvent, ignore
from millrace.store.records import HostRecord
from millrace.store.store import Store

RESUMES = "the same command resumes where it stopped"


@dataclass(frozen=True)
class Caller:
    """The caller of a use case: the command line that new runs record, and the event handler."""

    command: str
    on_event: OnEvent = ignore


@contextmanager
def measuring(path: Path, purpose: str, caller: Caller) -> Iterator[tuple[ExitStack, Store]]:
    """Reserve the host and open the store at ``path`` for the block; yield a stack and the store.

    The stack closes at the end of the block.
    """
    with ExitStack() as stack:
        stack.enter_context(exclusive_host(purpose, caller.on_event))
        yield stack, stack.enter_context(Store.open(path))


def run(
    path: Path,
    experiment: Experiment,
    caller: Caller,
    *,
    fresh: bool = False,
    retry_failed: bool = False,
) -> RunReport:
    """Measure the trials of an experiment that have no result; return the report of its run.

    Resume the newest run in the store at ``path``; begin a new run if there is none, or with
    ``fresh``. Raise Interrupted if the user stops it, HostError if the host cannot continue;
    another call resumes the run.
    """
    with measuring(path, f"run {experiment.name}", caller) as (stack, store):
        wanted = experiment
        require_profile(wanted)
        fitting = fitted(wanted) if fresh else within_limit(store, wanted)
        experiment, no_profile = with_profile(fitting)
        selection = select_run(store, experiment, caller, fresh=fresh)
        for note in (*left_out_of_files(experiment), *notes(wanted, experiment)):
            caller.on_event(Notice(note))
        for possible in (no_profile, slices_possible(experiment)):
            if selection.is_new and possible is not None:
                caller.on_event(Notice(possible))
        execute_run(stack, store, selection, caller, retry_failed=retry_failed)
        stored = store.load_run(selection.run.id, observations_too=True)
        base = str(experiment.compare.base)
        return report_of(store, stored, margin=experiment.margin, base=base)


def select_run(
    store: Store,
    experiment: Experiment,
    caller: Caller,
    *,
    fresh: bool = False,
    tools: Mapping[str, str] = {},
) -> RunSelection:
    """Return the run to resume, or a new one; record also the versions of ``tools``."""
    selection = resume.select_run(
        store,
        experiment,
        host=host_record(),
        versions={**versions(), **tools},
        command=caller.command,
        fresh=fresh,
    )
    if selection.note is not None:
        caller.on_event(Notice(selection.note))
    return selection


def new_run(plan: Plan, caller: Caller) -> RunSelection:
    """Return a new run of a plan, even if an earlier one could be resumed."""
    run = new_run_record(plan, host_record(), versions(), caller.command)
    return RunSelection(run, plan, is_new=True)


def execute_run(
    stack: ExitStack,
    store: Store,
    selection: RunSelection,
    caller: Caller,
    *,
    retry_failed: bool = False,
) -> Executed:
    """Execute the trials of a run that have no result, in a fixed or a sequential design."""
    policy: Policy = Fixed(selection, retry_failed=retry_failed)
    plan = selection.plan
    if plan.experiment.sequential:
        forecast = forecast_here(plan, store)
        if selection.is_new and (note := shortfall(plan, forecast)) is not None:
            caller.on_event(Notice(note))
        trial_s = forecast.time_s / len(plan.trials)
        policy = Sequential(selection, retry_failed=retry_failed, unknown_s=trial_s)
    prepare = Preparation(stack, store, caller.on_event)
    with _resumable():
        return scheduler.execute(
            store, selection.run, policy, prepare, caller.on_event, is_new=selection.is_new,
            rules=rules_of(selection),
        )  # fmt: skip


def execute_campaign(
    store: Store,
    selection: RunSelection,
    policy: Policy,
    prepare: Prepare,
    caller: Caller,
    *,
    limit_s: float | None,
) -> Executed:
    """Execute a run whose policy adds blocks one by one.

    A transient host error ends the command, because a stored failure would count against its
    treatment permanently.
    """
    rules = Rules(limit_s=limit_s, stop_at_host_errors=True)
    with resumable_host(), _resumable():
        executed = scheduler.execute(
            store, selection.run, policy, prepare, caller.on_event, is_new=selection.is_new,
            rules=rules,
        )  # fmt: skip
    if executed.reason == TIME_LIMIT:
        caller.on_event(Notice("the time limit is reached: a larger --max-time resumes"))
    return executed


@contextmanager
def _resumable() -> Iterator[None]:
    try:
        yield
    except Interrupted as stopped:
        raise Interrupted(stopped.message, hint=RESUMES) from None


@contextmanager
def resumable_host() -> Iterator[None]:
    """Add the hint to resume to a transient host error."""
    try:
        yield
    except PermanentHostError:
        raise
    except HostError as problem:
        hint = f"{problem.hint}; {RESUMES}" if problem.hint else RESUMES
        raise HostError(problem.message, hint=hint) from problem


def host_record() -> HostRecord:
    """Return the current facts of this host, with the findings of ``doctor``."""
    facts = host.facts(paths.work_dir())
    findings = doctor.examine(facts, paths.work_dir())
    return HostRecord(host.host_id(facts), facts.replace(findings=findings))


def versions() -> dict[str, str]:
    """Return the versions to record with a run: millrace's and those of the data sets."""
    return {"millrace": __version__, **datasets.versions()}
