"""Calibrate a host: measure how reliable its verdicts are."""

from pathlib import Path

from millrace.analysis.compare.calibration import Calibration, calibration
from millrace.app.execution import Caller, execute_campaign, measuring, resumable_host, select_run
from millrace.campaign.policies import calibrate as policy
from millrace.campaign.preparation import Preparation
from millrace.errors import UserError
from millrace.experiment.levels import SERVER, resolved_level
from millrace.experiment.model import Experiment
from millrace.experiment.plan import without_slices
from millrace.experiment.slowdown import CPU
from millrace.levels import split_role
from millrace.model.events import Notice
from millrace.model.servers import AttachedServer
from millrace.quantities import counted
from millrace.servers import install


def calibrate(
    path: Path,
    experiment: Experiment,
    caller: Caller,
    *,
    verdicts: int,
    injected: str | None,
    limit_s: float | None = None,
    fresh: bool = False,
) -> Calibration:
    """Compare the base of an experiment with itself, and then with itself slowed down.

    Measure until there are ``verdicts`` A/A verdicts in total and, in each group, one verdict on
    the ``injected`` slowdown (``cpu``, ``fsync`` or an option; None for no slowdown), or until
    ``limit_s`` has passed. ``cpu`` cannot slow down loads in slices: such trials are interleaved.
    Raise UserError for an experiment that does not compare speed.
    """
    if experiment.checked_workload.fills_disk:
        raise UserError(
            f"{experiment.source}: trials that fill a disk do not measure speed",
            hint="calibrate with an experiment that compares speed",
        )
    if injected == CPU and experiment.slices and not experiment.checked_workload.drives:
        if experiment.requires_slices:
            raise UserError(
                f"{experiment.source}: millrace cannot slow down loads in slices",
                hint="calibrate with --slowdown none or --slowdown NAME=VALUE, or --interleaved",
            )
        experiment = without_slices(experiment)
        caller.on_event(
            Notice(
                "loads can be slowed down in interleaved trials only, so all trials are "
                "interleaved; the result does not apply to runs in slices, which --slowdown none "
                "calibrates"
            )
        )
    calibrated = policy.calibration_experiment(experiment)
    if injected is not None:
        _refuse_attached(calibrated)
    groups = policy.groups_of(calibrated)
    beforehand = None if injected is None else policy.fixed_level(injected)
    refused = None if beforehand is None else policy.CalibrationBlock(beforehand, groups)
    return calibrate_by(
        path,
        calibrated,
        caller,
        lambda found: policy.next_block(found, groups, verdicts=verdicts, injected_kind=injected),
        verdicts=verdicts,
        check=refused,
        limit_s=limit_s,
        fresh=fresh,
    )


def calibrate_by(
    path: Path,
    calibrated: Experiment,
    caller: Caller,
    choose_block: policy.ChooseBlock,
    *,
    verdicts: int,
    check: policy.CalibrationBlock | None = None,
    limit_s: float | None = None,
    fresh: bool = False,
) -> Calibration:
    """Measure the blocks of a calibration experiment that ``choose_block`` returns.

    Prepare the block ``check`` first, so that its errors end the command before any measurement.
    """
    with measuring(path, f"calibrate {calibrated.name}", caller) as (stack, store):
        selection = select_run(store, calibrated, caller, fresh=fresh)
        prepare = Preparation(stack, store, caller.on_event)
        if check is not None:
            stored = None if selection.is_new else store.load_run(selection.run.id)
            with resumable_host():
                prepare(policy.block_plan(calibrated, check, seed=0, block=0, position=0), stored)
        n_groups = len(policy.groups_of(calibrated))
        caller.on_event(Notice(f"run {selection.run.id}: {counted(n_groups, 'group')}"))
        seed = selection.run.seed
        chosen = policy.Calibrate(
            calibrated, seed=seed, verdicts=verdicts, choose_block=choose_block
        )
        executed = execute_campaign(store, selection, chosen, prepare, caller, limit_s=limit_s)
        assert executed.stored is not None  # a new calibration always measures one block
        return calibration(executed.stored)


def _refuse_attached(experiment: Experiment) -> None:
    """Raise UserError if a server of the experiment is attached: it cannot be slowed down."""
    attached = {row.name for row in install.list_servers() if row.state == "attached"}
    of_servers = (each for each in experiment.factors if split_role(each.name)[1] == SERVER)
    named = {str(resolved_level(each, level)) for each in of_servers for level in each.levels}
    for name in sorted(attached & named):
        if isinstance(install.find(name), AttachedServer):
            raise UserError(
                f"{name} is attached: millrace cannot slow it down",
                hint="calibrate with --slowdown none",
            )
