"""Find the server in a list at which performance changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from millrace.analysis.compare.bisection import Bisection, bisection, is_reversed
from millrace.app.execution import Caller, execute_campaign, measuring, select_run
from millrace.app.experiments import validation_context
from millrace.app.report import BisectionReport
from millrace.campaign.policies import bisect as policy
from millrace.campaign.preparation import Preparation
from millrace.errors import UserError, ValidationError
from millrace.experiment.model import Experiment
from millrace.experiment.read import Overrides, parse, read
from millrace.host import valgrind
from millrace.levels import Level
from millrace.model.events import Notice
from millrace.model.instruction_counts import MARGIN
from millrace.quantities import counted
from millrace.report.common.formatting import value_text
from millrace.servers import install


@dataclass(frozen=True)
class BisectionRequest:
    """A search between ``good`` and ``bad``, in the list ``among``.

    ``workload``: a built-in workload, one of its tests, or the path of an experiment file.
    ``options``: options for all servers. ``margin_percent``: None for the default. ``confidence``:
    a fraction. ``by_instructions``: compare instructions instead of the workload's primary metric.
    """

    good: str
    bad: str
    among: Sequence[str]
    workload: str
    scale: str | None
    options: Mapping[str, Level]
    margin_percent: float | None
    confidence: float
    by_instructions: bool = False


def bisect(
    path: Path,
    request: BisectionRequest,
    caller: Caller,
    *,
    limit_s: float | None = None,
    fresh: bool = False,
) -> BisectionReport:
    """Measure one server at a time until the change is found or ``limit_s`` has passed.

    Raise UserError if ``bad`` is better than ``good``, TrialFailed if one of them cannot be
    measured, and PermanentHostError if this host cannot count instructions.
    """
    if request.by_instructions:
        valgrind.find()
    servers = policy.servers_between(request.good, request.bad, request.among)
    policy.refuse_unknown(servers, [row.name for row in install.list_servers()])
    experiment = policy.bisection_experiment(
        _experiment(request, servers),
        servers,
        workload=request.workload,
        options=request.options,
        confidence=request.confidence,
        by_instructions=request.by_instructions,
    )
    with measuring(path, f"bisect {servers[0]} to {servers[-1]}", caller) as (stack, store):
        selection = select_run(store, experiment, caller, fresh=fresh)
        caller.on_event(Notice(f"run {selection.run.id}: {counted(len(servers), 'server')}"))
        chosen = policy.Bisect(experiment, seed=selection.run.seed)
        prepare = Preparation(stack, store, caller.on_event)
        executed = execute_campaign(store, selection, chosen, prepare, caller, limit_s=limit_s)
        assert executed.stored is not None  # a new search always measures one end first
        found = bisection(store.load_run(selection.run.id, observations_too=True))
        if is_reversed(found):
            raise _reversed(found)
        return BisectionReport(found, store.report_path(found.run.id))


def _experiment(request: BisectionRequest, servers: Sequence[str]) -> Experiment:
    """Return the experiment in the workload's file, or one for the built-in workload."""
    around = validation_context()
    # Each block is one trial of one server.
    overrides = Overrides(margin_percent=request.margin_percent, interleaved=True)
    if request.by_instructions:
        margin = request.margin_percent or 100 * MARGIN
        overrides = replace(overrides, margin_percent=margin, collectors=())
    workload, scale = request.workload, request.scale
    if workload.endswith(".toml"):
        return read(Path(workload), scale=scale, context=around, overrides=overrides)
    if scale is not None:
        raise UserError(
            f"--scale {scale}: the built-in workload {workload} has no scales",
            hint="leave out --scale, or give an experiment file with --workload",
        )
    text = policy.experiment_text(workload, servers)
    source = Path(f"--workload {workload}")
    try:
        return parse(text, source, scale=None, context=around, overrides=overrides)
    except ValidationError as incomplete:
        raise UserError(
            str(incomplete), hint="write an experiment file, and give it with --workload"
        ) from None


def _reversed(found: Bisection) -> UserError:
    names = found.spec.members
    good, bad = (found.members[end].level for end in (0, -1))
    assert good is not None
    assert bad is not None
    return UserError(
        f"{names[-1]} is better than {names[0]}: {value_text(bad, found.metric)} against "
        f"{value_text(good, found.metric)} {found.metric.unit}",
        hint=f"swap the servers: --good {names[-1]} --bad {names[0]}",
    )
