"""Check whether a plan's trials can fill a disk here, and find the options that they need."""

from collections.abc import Mapping
from pathlib import Path

from millrace import databases
from millrace.campaign.inputs import servers_of, varied_options
from millrace.errors import Diagnostic, PermanentHostError, Unavailable, UserError, ValidationError
from millrace.experiment.model import Plan, Treatment
from millrace.host.limited_filesystem import require_limited_filesystem
from millrace.levels import Level
from millrace.model.roles import SERVER, SOURCE
from millrace.model.servers import Server, version_of
from millrace.servers import install
from millrace.trial.resolved_workload import ResolvedWorkload

_BINARY_LOG = "log_bin"


def refuse_impossible(plan: Plan) -> None:
    """Raise ValidationError for servers whose disk millrace cannot limit; they may be missing."""
    experiment = plan.experiment
    if not experiment.checked_workload.fills_disk:
        return
    attached = {row.name for row in install.list_servers() if row.version is None}
    used = {
        name for each in plan.treatments for name in servers_of(experiment, each).values()
    } & attached
    if used:
        found = [
            Diagnostic(
                "factors.server",
                f"millrace cannot fill the disk of {name}, an attached server",
                "servers that millrace starts",
            )
            for name in sorted(used)
        ]
        raise ValidationError(experiment.source, found)


def refuse_without_filesystem(plan: Plan, work_dir: Path) -> None:
    """Raise PermanentHostError where trials need file systems that this host does not allow."""
    if not plan.experiment.checked_workload.fills_disk:
        return
    try:
        require_limited_filesystem(work_dir)
    except Unavailable as reason:
        raise PermanentHostError(reason.message, hint=reason.hint) from reason


def required_options(
    servers: Mapping[str, Server], treatment: Treatment, workload: ResolvedWorkload
) -> dict[str, Mapping[str, Level]]:
    """Return the options by role that decide whether a binary log takes space.

    Raise UserError for an experiment that varies it.
    """
    if not workload.checked.fills_disk:
        return {}
    server = servers[SERVER]
    replication = databases.get(server.family).replication
    needed: Mapping[str, Level] = {_BINARY_LOG: False}
    if workload.values["filled_by"] == "binary_log":
        if replication is None:
            raise UserError(f"millrace does not know how {server.family} keeps a binary log")
        needed = replication.options(SOURCE, version_of(server), "row", by_gtid=False)
    if varied_options(treatment).keys() & needed.keys():
        raise UserError(
            "options.log_bin cannot be varied where a disk is filled",
            hint="the factor filled_by decides whether there is a binary log",
        )
    return {SERVER: needed}
