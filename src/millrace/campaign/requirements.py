"""Derive the options that a workload requires of its servers, and refuse unsuitable servers.

Replication sets options of the source and the replica. A workload that fills a disk sets the
options of the binary log. Compressed tables need a format that the server supports.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from millrace import databases
from millrace.campaign.inputs import PreparedTreatment, servers_of, varied_options
from millrace.databases.replication import Replication
from millrace.databases.table_formats import TableFormat
from millrace.errors import Diagnostic, PermanentHostError, Unavailable, UserError, ValidationError
from millrace.experiment.model import Experiment, Plan, Treatment
from millrace.experiment.plan import chosen
from millrace.experiment.read import compresses
from millrace.host.holes import require_holes
from millrace.host.limited_filesystem import require_limited_filesystem
from millrace.levels import Level
from millrace.model.roles import REPLICA, SERVER, SOURCE
from millrace.model.servers import AttachedServer, InstalledServer, Server, version_of
from millrace.servers import install, options
from millrace.servers.configurations.check import about
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec
from millrace.workloads.defaults import COMPRESSION, UNCOMPRESSED
from millrace.workloads.settings import ReplicationSettings

_PAIRS_HINT = (
    "a replica must have the family of its source and must not be older; name the servers with "
    "source.server and replica.server in [factors], or one server for both roles with server"
)


def refuse_impossible(plan: Plan) -> None:
    """Raise ValidationError for servers that cannot execute a workload, installed or not.

    Not every replica can follow every source, and millrace cannot limit the disk of an attached
    server.
    """
    workload, source = plan.experiment.checked_workload, plan.experiment.source
    if workload.replicates and (found := _unfit_pairs(plan)):
        raise ValidationError(source, found, hint=_PAIRS_HINT)
    if workload.fills_disk and (found := _unlimited_disks(plan)):
        raise ValidationError(source, found)


def _unfit_pairs(plan: Plan) -> list[Diagnostic]:
    """Return a diagnostic for each pair whose replica cannot follow its source."""
    experiment = plan.experiment
    listings = {row.name: row for row in install.list_servers()}
    found: dict[str, Diagnostic] = {}
    for treatment in plan.treatments:
        names = servers_of(experiment, treatment)
        source, replica = listings[names[SOURCE]], listings[names[REPLICA]]
        values = experiment.checked_workload.values(chosen(experiment, treatment))
        gtid = ReplicationSettings.model_validate(values).gtid
        if source.version is None or replica.version is None:
            why: str | None = "attached servers cannot replicate here; millrace starts both servers"
        elif source.family != replica.family:
            why = "replication between families is not known to work"
        elif (of_family := databases.get(source.family).replication) is None:
            why = f"replication of {source.family} is not supported"
        else:
            why = of_family.refusal(source.version, replica.version, gtid)
        if why is not None:
            said = f"{replica.name} cannot be a replica of {source.name}: {why}"
            found.setdefault(said, Diagnostic("factors", said, "another pair of servers"))
    return list(found.values())


def _unlimited_disks(plan: Plan) -> list[Diagnostic]:
    attached = {row.name for row in install.list_servers() if row.version is None}
    used = {name for t in plan.treatments for name in servers_of(plan.experiment, t).values()}
    said = "millrace cannot fill the disk of {}, an attached server"
    return [
        Diagnostic("factors.server", said.format(name), "servers that millrace starts")
        for name in sorted(used & attached)
    ]


def refuse_without_filesystem(plan: Plan, work_dir: Path) -> None:
    """Raise PermanentHostError if trials need file systems that this host does not allow."""
    if not plan.experiment.checked_workload.fills_disk:
        return
    try:
        require_limited_filesystem(work_dir)
    except Unavailable as reason:
        raise PermanentHostError(reason.message, hint=reason.hint) from reason


def required_options(
    servers: Mapping[str, Server], treatment: Treatment, workload: ResolvedWorkload
) -> dict[str, Mapping[str, Level]]:
    """Return the options that replication or a full disk needs, by role; UserError if varied."""
    if workload.checked.replicates:
        return _options_of_replication(servers, treatment, workload)
    if workload.checked.fills_disk:
        return {SERVER: _options_of_full_disk(servers[SERVER], treatment, workload)}
    return {}


def _options_of_full_disk(
    server: Server, treatment: Treatment, workload: ResolvedWorkload
) -> Mapping[str, Level]:
    """Return the options that decide whether a binary log takes space."""
    replication = databases.get(server.family).replication
    needed: Mapping[str, Level] = {"log_bin": False}
    if workload.values["filled_by"] == "binary_log":
        if replication is None:
            raise UserError(
                f'filled_by = "binary_log" is not supported for {server.family} ({server.name})',
                hint="use another level of filled_by",
            )
        needed = replication.options(SOURCE, version_of(server), "row", by_gtid=False)
    if varied_options(treatment).keys() & needed.keys():
        raise UserError(
            "options.log_bin cannot be varied in a workload that fills a disk",
            hint="vary the factor filled_by, which decides whether there is a binary log",
        )
    return needed


def _options_of_replication(
    servers: Mapping[str, Server], treatment: Treatment, workload: ResolvedWorkload
) -> dict[str, Mapping[str, Level]]:
    versions = {role: version_of(server) for role, server in servers.items()}
    replication = _replication_of(servers[SOURCE])
    settings = ReplicationSettings.model_validate(workload.values)
    by_gtid = replication.uses_gtids(versions[SOURCE], versions[REPLICA], settings.gtid)
    found = {
        role: replication.options(role, version, settings.log_format, by_gtid=by_gtid)
        for role, version in versions.items()
    }
    for role, needed in found.items():
        for name in varied_options(treatment, role).keys() & needed.keys():
            raise UserError(
                f"options.{name} cannot be varied for the {role}: replication sets it",
                hint="vary the workload's factors log_format and gtid instead",
            )
    return found


def shared_options(source: ServerSpec) -> dict[str, Level]:
    """Return the source's options that its replica must have too, for the same tables."""
    assert isinstance(source.server, InstalledServer)  # others are refused
    names = _replication_of(source.server).shared_options
    defaults = options.known(source.server).defaults
    given = {about(option.name): option.value for option in source.options.applied}
    values = {name: given.get(name) or defaults.get(name) for name in names}
    return {name: value for name, value in values.items() if value}


def _replication_of(server: Server) -> Replication:
    """Return the replication of a server's family; the caller has checked that there is one."""
    replication = databases.get(server.family).replication
    assert replication is not None
    return replication


def table_format_of(experiment: Experiment, treatment: Treatment, server: Server) -> TableFormat:
    """Return the format of a treatment's tables; ``unavailable`` is set if unsupported."""
    formats = databases.get(server.family).table_formats
    version = None if isinstance(server, AttachedServer) else server.version
    engine = treatment.resolved.get("engine")
    compression = str(treatment.resolved.get(COMPRESSION, UNCOMPRESSED))
    try:
        found = formats.resolve(None if engine is None else str(engine), compression, version)
    except UserError as error:
        return TableFormat(compression=compression, unavailable=error.message)
    if version is None:
        return replace(found, server_options={})  # an attached server is never reconfigured
    if not compresses(experiment.factors):
        return found
    options = {**formats.comparable_options(version), **found.server_options}
    return replace(found, server_options=options)


def refuse_varied(treatment: Treatment, role: str, table_format: TableFormat) -> None:
    """Raise UserError if a treatment varies an option that the format of its tables sets."""
    decided = {about(name): value for name, value in table_format.server_options.items()}
    for name in varied_options(treatment, role):
        if (value := decided.get(about(name))) is not None:
            raise UserError(
                f"options.{name} cannot be varied: the compression or the engine of the tables "
                f"needs {about(name)} = {value}",
                hint="remove this option from [factors]; the factor compression sets it",
            )


def unavailable(prepared: Collection[PreparedTreatment]) -> list[str]:
    """Return a sentence for each server that lacks a table format; UserError if all lack one."""
    reasons = [server.table_format.unavailable for each in prepared for server in each.servers]
    known = list(dict.fromkeys(reason for reason in reasons if reason is not None))
    if known and all(reasons):
        raise UserError("\n".join(known), hint="use other levels, or other servers")
    return [f"{reason}: these trials will fail, the others are measured" for reason in known]


def refuse_without_holes(prepared: Collection[PreparedTreatment], work_dir: Path) -> None:
    """Raise PermanentHostError if page compression needs holes that the file system lacks."""
    formats = (server.table_format for each in prepared for server in each.servers)
    wanted = sorted({each.compression for each in formats if each.punches_holes})
    if not wanted:
        return
    try:
        require_holes(work_dir)
    except Unavailable as reason:
        raise PermanentHostError(
            f"{work_dir}: {reason.message}; compression {' and '.join(map(repr, wanted))} needs "
            "holes to free the rest of each page",
            hint="set MILLRACE_WORK to a directory on ext4, XFS, Btrfs or tmpfs, or remove these "
            "levels",
        ) from reason
