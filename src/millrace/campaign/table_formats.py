"""Choose the format of a treatment's tables, and refuse what no server or file system here has."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from millrace import databases
from millrace.campaign.inputs import PreparedTreatment, varied_options
from millrace.databases.table_formats import TableFormat
from millrace.errors import PermanentHostError, Unavailable, UserError
from millrace.experiment.model import Experiment, Treatment
from millrace.experiment.read import compresses
from millrace.host.holes import require_holes
from millrace.model.servers import AttachedServer, Server
from millrace.servers.configurations.check import about
from millrace.workloads.defaults import COMPRESSION, UNCOMPRESSED


def table_format_of(experiment: Experiment, treatment: Treatment, server: Server) -> TableFormat:
    """Return the format of a treatment's tables, with the reason where the server lacks it."""
    formats = databases.get(server.family).table_formats
    version = None if isinstance(server, AttachedServer) else server.version
    engine = treatment.resolved.get("engine")
    compression = str(treatment.resolved.get(COMPRESSION, UNCOMPRESSED))
    try:
        found = formats.resolve(None if engine is None else str(engine), compression, version)
    except UserError as error:
        return TableFormat(compression=compression, unavailable=error.message)
    if version is None:
        return replace(found, server_options={})  # it is never reconfigured
    if not compresses(experiment.factors):
        return found
    options = {**formats.comparable_options(version), **found.server_options}
    return replace(found, server_options=options)


def refuse_varied(treatment: Treatment, role: str, table_format: TableFormat) -> None:
    """Raise UserError where a treatment varies an option that its tables' format decides."""
    decided = {about(name): value for name, value in table_format.server_options.items()}
    for name in varied_options(treatment, role):
        if (value := decided.get(about(name))) is not None:
            raise UserError(
                f"options.{name} cannot be varied here: the compression or the engine of the "
                f"tables needs {about(name)} = {value}",
                hint="leave this option out of [factors]; the factor compression chooses it",
            )


def unavailable(prepared: Collection[PreparedTreatment]) -> list[str]:
    """Return a sentence for each server that lacks what some of its trials need.

    Raise UserError where that is so for all treatments.
    """
    reasons = [server.table_format.unavailable for each in prepared for server in each.servers]
    known = list(dict.fromkeys(reason for reason in reasons if reason is not None))
    if known and all(reasons):
        raise UserError("\n".join(known), hint="other levels, or other servers")
    return [f"{reason}: these trials will fail, the others are measured" for reason in known]


def refuse_without_holes(prepared: Collection[PreparedTreatment], work_dir: Path) -> None:
    """Raise PermanentHostError where files are to get holes that their file system lacks."""
    formats = (server.table_format for each in prepared for server in each.servers)
    wanted = sorted({each.compression for each in formats if each.punches_holes})
    if not wanted:
        return
    try:
        require_holes(work_dir)
    except Unavailable as reason:
        raise PermanentHostError(
            f"{work_dir}: {reason.message}; compression {' and '.join(map(repr, wanted))} frees "
            "the rest of each page in that way",
            hint="set MILLRACE_WORK to a directory on ext4, XFS, Btrfs or tmpfs, or leave these "
            "levels out",
        ) from reason
