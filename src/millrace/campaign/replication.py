"""Check whether the servers of treatments can replicate, and find the options that they need."""

from collections.abc import Mapping

from millrace import databases
from millrace.campaign.inputs import servers_of, varied_options
from millrace.databases.replication import Replication
from millrace.errors import Diagnostic, UserError, ValidationError
from millrace.experiment.model import Plan, Treatment
from millrace.experiment.plan import chosen
from millrace.levels import Level
from millrace.model.roles import REPLICA, SOURCE
from millrace.model.servers import InstalledServer, Server, version_of
from millrace.servers import install, options
from millrace.servers.configurations.check import about
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec
from millrace.workloads.settings import ReplicationSettings

_HINT = (
    "replicas follow a source of the same family that is not newer; name the servers by "
    "source.server and replica.server in [factors], or one for both roles by server"
)


def refuse_impossible(plan: Plan) -> None:
    """Raise ValidationError where a replica cannot follow its source; servers may be missing."""
    experiment = plan.experiment
    if not experiment.checked_workload.replicates:
        return
    listings = {row.name: row for row in install.list_servers()}
    found: dict[str, Diagnostic] = {}
    for treatment in plan.treatments:
        names = servers_of(experiment, treatment)
        source, replica = listings[names[SOURCE]], listings[names[REPLICA]]
        values = experiment.checked_workload.values(chosen(experiment, treatment))
        gtid = ReplicationSettings.model_validate(values).gtid
        if source.version is None or replica.version is None:
            why: str | None = "millrace sets replication up itself, on servers that it starts"
        elif source.family != replica.family:
            why = "replication between families is not known to work"
        elif (of_family := databases.get(source.family).replication) is None:
            why = f"millrace does not know how {source.family} replicates"
        else:
            why = of_family.refusal(source.version, replica.version, gtid)
        if why is not None:
            said = f"{replica.name} cannot be a replica of {source.name}: {why}"
            found.setdefault(said, Diagnostic("factors", said, "another pair of servers"))
    if found:
        raise ValidationError(experiment.source, list(found.values()), hint=_HINT)


def required_options(
    servers: Mapping[str, Server], treatment: Treatment, workload: ResolvedWorkload
) -> dict[str, Mapping[str, Level]]:
    """Return the options by role that replication needs; none without a replica.

    Raise UserError for an experiment that varies one of them.
    """
    if not workload.checked.replicates:
        return {}
    versions = {role: version_of(server) for role, server in servers.items()}
    replication = replication_of(servers[SOURCE])
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
                hint="the factors log_format and gtid of the workload decide what the log has",
            )
    return found


def shared_options(source: ServerSpec) -> dict[str, Level]:
    """Return the source's settings that its replica must share to have the same tables."""
    assert isinstance(source.server, InstalledServer)  # others are refused
    names = replication_of(source.server).shared_options
    defaults = options.known(source.server).defaults
    given = {about(option.name): option.value for option in source.options.applied}
    values = {name: given.get(name) or defaults.get(name) for name in names}
    return {name: value for name, value in values.items() if value}


def replication_of(server: Server) -> Replication:
    """Return the replication of a server's family, which is known to have one."""
    replication = databases.get(server.family).replication
    assert replication is not None
    return replication
