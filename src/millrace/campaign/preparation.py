"""Check and provide everything a run needs before its first trial.

That is servers, options, data and disk space. All errors that can be found in advance are reported
before anything is measured.
"""

import errno
import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from millrace import errors, paths
from millrace.campaign import inputs, requirements
from millrace.campaign.forecast import expected_here_s, forecast_here, refuse_without_space
from millrace.campaign.inputs import PreparedTreatment, RunInput, all_servers, servers_of
from millrace.databases.table_formats import TableFormat
from millrace.errors import HostError, TrialFailed, UserError
from millrace.experiment.levels import OPTION
from millrace.experiment.model import Experiment, Plan, Treatment
from millrace.experiment.plan import chosen
from millrace.experiment.slowdown import slowdown_of
from millrace.levels import Level
from millrace.loadgen import datasets
from millrace.model.events import Notice, OnEvent
from millrace.model.roles import MEASURED
from millrace.model.servers import AttachedServer, InstalledServer, LeftOut, Option, Server
from millrace.quantities import counted
from millrace.servers import attached, configurations, install, options, snapshots
from millrace.servers.configurations.check import about
from millrace.servers.instances import launch, users
from millrace.shared_directories import refuse_shared
from millrace.store.records import StoredRun
from millrace.store.store import Store
from millrace.trial import cpu_idle
from millrace.trial.cpu_idle import CpuIdlePolicy
from millrace.trial.data_file import generated_file
from millrace.trial.fault_injection import refuse_left_out, slowed_server
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec
from millrace.workloads.defaults import COMPRESSION
from millrace.workloads.schema_factors import cpu_numbers

_OTHER_PLACE = "set MILLRACE_WORK to a directory of your own, on the disk to measure"


def treatment_inputs(plan: Plan, servers: Mapping[str, Server]) -> dict[str, PreparedTreatment]:
    """Return the prepared treatments of a plan, by treatment id; ``servers`` are by name.

    A treatment is left out if one of its servers is not in ``servers``. Raise one UserError for all
    treatments with unknown options or with a configuration for an attached server.
    """
    prepared = _each_treatment(plan, servers)
    _refuse_unknown_options(prepared.values())
    return prepared


def _each_treatment(plan: Plan, servers: Mapping[str, Server]) -> dict[str, PreparedTreatment]:
    """Return the prepared treatments of a plan that have all their servers among ``servers``."""
    found: dict[str, PreparedTreatment] = {}
    refused: dict[str, UserError] = {}
    for treatment in plan.treatments:
        if not servers.keys() >= set(servers_of(plan.experiment, treatment).values()):
            continue
        try:
            found[treatment.id] = _treatment_input(plan.experiment, treatment, servers)
        except UserError as error:
            refused.setdefault(error.message, error)
    if refused:
        hints = dict.fromkeys(error.hint for error in refused.values() if error.hint)
        raise UserError("\n".join(refused), hint="; ".join(hints) or None)
    return found


def options_without_effect(prepared: Iterable[PreparedTreatment]) -> list[str]:
    """Return a sentence for each varied option that was left out on a server, with the reason."""
    sentences = (
        f"{left.reason}: the levels of {OPTION}{about(left.option.name)} do not differ there"
        for treatment in prepared
        for server in treatment.servers
        for left in server.options.left_out
        if _is_varied(left)
    )
    return list(dict.fromkeys(sentences))


def _refuse_unknown_options(prepared: Collection[PreparedTreatment]) -> None:
    """Raise UserError for a varied option that no server knows.

    An option that some servers know is left out on the others. An option that no server knows is
    probably misspelt.
    """
    servers = (server for treatment in prepared for server in treatment.servers)
    own = [each for each in servers if isinstance(each.server, InstalledServer)]
    left_out = (filter(_is_varied, each.options.left_out) for each in own)
    lacking = [{about(left.option.name) for left in lefts} for lefts in left_out]
    unknown = sorted(set.intersection(*lacking)) if lacking else []
    known = {name for each in own if unknown for name in _known_names(each.server)}
    for name in unknown:
        nearest = errors.nearest_names(name, known)
        raise UserError(
            f"factor options.{name}: no server of this experiment has the option {name!r}",
            hint=f"nearest: {', '.join(nearest)}" if nearest else "remove it from [factors]",
        )


def _is_varied(left: LeftOut) -> bool:
    return left.option.layer == configurations.VARIED and left.replaced_by is None


def _known_names(server: Server) -> Collection[str]:
    return options.known(server).names if isinstance(server, InstalledServer) else ()


def refuse_missing_cpus(experiment: Experiment) -> None:
    """Raise ValidationError for client CPUs that this process may not use."""
    wanted = cpu_numbers(str(experiment.parameters.get("client_cpus", ""))) or ()
    here = os.sched_getaffinity(0)
    if missing := sorted(set(wanted) - here):
        listed = ", ".join(map(str, missing))
        mistake = errors.Diagnostic(
            "parameters.client_cpus",
            f"CPU {listed} does not exist or millrace may not use it",
            f"some of {', '.join(map(str, sorted(here)))}; without this key millrace uses any CPU",
        )
        raise errors.ValidationError(experiment.source, [mistake])


def refuse_impossible(plan: Plan) -> None:
    """Raise MillraceError if the plan's servers cannot execute it; nothing is started."""
    install.require_known(all_servers(plan))
    snapshots.named_limit_bytes()
    requirements.refuse_impossible(plan)
    refuse_attached(plan)
    refuse_options(plan)


def refuse_options(plan: Plan) -> None:
    """Raise UserError for options or values that an installed server refuses.

    Servers that are not installed yet are checked after their installation.
    """
    servers = _installed_here(plan)
    try:
        prepared = _each_treatment(plan, servers).values()
        if len(prepared) == len(plan.treatments):
            _refuse_unknown_options(prepared)
        _refuse_values(prepared, plan.experiment)
    except (HostError, TrialFailed):
        return  # a server that cannot list its options fails later, when it is needed


def _installed_here(plan: Plan) -> dict[str, Server]:
    """Return the servers of a plan that are installed, by name."""
    states = {row.name: row.state for row in install.list_servers()}
    here = [name for name in all_servers(plan) if states.get(name) in ("installed", "added")]
    return {name: install.find(name) for name in here}


def left_out_by_servers(plan: Plan) -> list[str]:
    """Return a note for each installed server that does not get all options of an option file."""
    files = {
        name: configurations.left_out_of(definition.to_json())
        for name, definition in plan.experiment.configurations.items()
    }
    if not any(left is not None for left in files.values()):
        return []
    found: dict[tuple[str, str], dict[str, None]] = {}
    prepared = _each_treatment(plan, _installed_here(plan)).values()
    for spec in (spec for treatment in prepared for spec in treatment.servers):
        for left in spec.options.left_out:
            layer = _layer_of(left.option, files)
            known = files.get(layer)
            if known is not None and left.option.name not in known:
                text = _with_nearest(left, spec.server)
                found.setdefault((layer, spec.server.name), {})[text] = None
    return [
        f"configuration {layer}: left out with {server}: {', '.join(options)}"
        for (layer, server), options in found.items()
    ]


def _layer_of(option: Option, configurations: Iterable[str]) -> str:
    """Return which of ``configurations`` sets an option; an empty string if none does."""
    beginnings = (f"{name}, " for name in configurations)
    return next((each[:-2] for each in beginnings if f"{option.layer}, ".startswith(each)), "")


def _with_nearest(left: LeftOut, server: Server) -> str:
    """Return a left-out option for a note, with the nearest known option or the reason."""
    name = left.option.name
    if not left.reason.endswith(f"has no option {name}"):
        return f"{name} ({left.reason})"
    near = errors.nearest_names(name, _known_names(server))
    return f"{name} (not known; nearest: {near[0]})" if near else f"{name} (not known)"


def _refuse_values(prepared: Iterable[PreparedTreatment], experiment: Experiment) -> None:
    """Raise UserError for values of the experiment's own options that a server refuses."""
    layers = experiment.configurations.keys() - configurations.load_builtin().keys()
    layers |= {configurations.VARIED}
    tried: dict[tuple[str, tuple[Option, ...]], InstalledServer] = {}
    for spec in (spec for treatment in prepared for spec in treatment.servers):
        own = tuple(o for o in spec.options.applied if _layer_of(o, layers))
        if isinstance(spec.server, InstalledServer):
            tried[spec.server.name, own] = spec.server
    lines = {
        f"  {server.name}, {option.name} = {option.value} "
        f"({_place_of(option, server, experiment)}): {words}": None
        for (_, own), server in tried.items()
        for option, words in options.refused(server, own)
    }
    if lines:
        noun = counted(len(lines), "value of an option", "values of options")
        raise UserError(
            f"servers refuse {noun}\n" + "\n".join(lines),
            hint="correct the values in [factors], [configurations] or the option file; put "
            "options for some versions only into [[configurations.NAME.when]]",
        )


def _place_of(option: Option, server: Server, experiment: Experiment) -> str:
    """Return the file and line of an option from an option file, else the layer that sets it."""
    definition = experiment.configurations.get(_layer_of(option, experiment.configurations))
    written = {} if definition is None else definition.to_json()
    if configurations.left_out_of(written) is not None:
        path = Path(written["title"])
        try:
            text = path.read_text(encoding="utf-8-sig") if path.is_file() else ""
        except (OSError, ValueError):  # replaced meanwhile
            text = ""
        line = configurations.line_of(option.name, option.value, text, server.family)
        return str(path) if line is None else f"{path}, line {line}"
    return f"layer {option.layer!r}"


def refuse_attached(plan: Plan) -> None:
    """Raise UserError if a plan requires something that its attached servers cannot do."""
    attached_names = (row.name for row in install.list_servers() if row.state == "attached")
    attached_servers = {name: install.find(name) for name in attached_names}
    for name in attached_servers.keys() & all_servers(plan) if plan.experiment.slices else ():
        raise UserError(
            f"{name} is attached: millrace cannot start it for each round",
            hint="measure whole trials (--interleaved), or use servers that millrace starts",
        )
    # Called only for its errors; the other servers may not be installed yet.
    treatment_inputs(plan, attached_servers)


def installed_servers(plan: Plan, on_event: OnEvent) -> dict[str, Server]:
    """Install missing servers of the catalogue; return all servers of the plan by name."""
    names = all_servers(plan)
    missing = {row.name for row in install.list_servers() if row.state in install.MISSING}
    for name in names:
        if name in missing:
            install.install(name, on_event=on_event)
    found = {name: install.find(name) for name in names}
    for name, tls in plan.experiment.tls.items():
        if isinstance(server := found.get(name), AttachedServer):
            found[name] = attached.with_tls(server, tls)
    return found


def _treatment_input(
    experiment: Experiment, treatment: Treatment, servers: Mapping[str, Server]
) -> PreparedTreatment:
    of_roles = {role: servers[name] for role, name in servers_of(experiment, treatment).items()}
    formats = {
        role: requirements.table_format_of(experiment, treatment, server)
        for role, server in of_roles.items()
    }
    # A replica gets the tables of its source.
    table_options = next(iter(formats.values())).sql
    workload = ResolvedWorkload(experiment.workload, chosen(experiment, treatment), table_options)
    required = requirements.required_options(of_roles, treatment, workload)
    specs: list[ServerSpec] = []
    for role, server in of_roles.items():
        # A workload's roles begin with the source.
        shared = requirements.shared_options(specs[0]) if specs else {}
        spec = _server_spec(
            experiment, treatment, workload, role=role, server=server, table_format=formats[role],
            required={**shared, **required.get(role, {})},
        )  # fmt: skip
        specs.append(spec)
    return PreparedTreatment(tuple(specs), workload)


def _server_spec(
    experiment: Experiment,
    treatment: Treatment,
    workload: ResolvedWorkload,
    *,
    role: str,
    server: Server,
    table_format: TableFormat,
    required: Mapping[str, Level],
) -> ServerSpec:
    requirements.refuse_varied(treatment, role, table_format)
    version = None if isinstance(server, AttachedServer) else server.version
    wanted = configurations.laid_over(
        inputs.configuration_of(experiment, treatment, role, family=server.family, version=version),
        table_format.server_options,
        layer=COMPRESSION,
    )
    if isinstance(server, AttachedServer) and inputs.varied_options(treatment, role):
        raise UserError(
            f"{server.name} is attached: millrace never reconfigures it, so its options cannot be"
            " varied",
            hint="remove the options from [factors], or the server",
        )
    if isinstance(server, AttachedServer) and workload.reads_a_file:
        raise UserError(
            f"{server.name} is attached: it cannot read files of this host (load_mode)",
            hint='use load_mode = "local" for this server',
        )
    slowdown = slowdown_of(treatment.resolved) if role in MEASURED else None
    if required:
        layer = "full disk" if workload.checked.fills_disk else "replication"
        wanted = configurations.laid_over(wanted, required, layer=layer, optional=False)
    fitted = options.fit(server, wanted)
    refuse_left_out(server, fitted, slowdown)
    slowed = slowed_server(server, slowdown)
    return ServerSpec(slowed, fitted, slowdown, role, table_format=table_format)


def work_directory(place: Path) -> Path:
    """Create and return the directory for instances' data; UserError or HostError on failure."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
    except OSError as error:
        raise paths.problem(error, f"{place}: {error.strerror}", hint=_OTHER_PLACE) from error
    refuse_shared(place, "MILLRACE_WORK", has_secret_names=True)
    return place


def require_reach(plan: Plan, work_dir: Path) -> None:
    """Raise HostError if the servers that millrace starts cannot access the work directory.

    If millrace runs as root, the servers run as another user. Every trial would fail.
    """
    theirs = {row.name for row in install.list_servers() if row.state == "attached"}
    ours = [name for name in all_servers(plan) if name not in theirs]
    with users.reserved() as uid:
        if ours and uid is not None:
            launch.require_reach(", ".join(ours), uid, [work_dir])


def expected_data(experiment: Experiment) -> datasets.DataChecksum | None:
    """Return the checksum of the data set to load; None if the workload has its own tables."""
    data = experiment.checked_workload.data
    if data is None:
        return None
    return datasets.data_checksum(
        data.set, int(experiment.parameters["rows"]), int(experiment.parameters["data_seed"])
    )


class Preparation:
    """Prepare the plans of one run; each set of treatments is prepared once.

    All plans share one data file, which is removed when ``stack`` is closed.
    """

    def __init__(self, stack: ExitStack, store: Store, on_event: OnEvent) -> None:
        self._stack = stack
        self._store = store
        self._on_event = on_event
        self._inputs: dict[tuple[str, ...], RunInput] = {}
        self._data_file: Path | None = None

    def __call__(self, plan: Plan, stored: StoredRun | None) -> RunInput:
        """Return the input of a plan's trials, given the run so far. Raise MillraceError."""
        key = tuple(treatment.id for treatment in plan.treatments)
        if key not in self._inputs:
            refuse_missing_cpus(plan.experiment)
            refuse_impossible(plan)
            refuse_without_space(forecast_here(plan, self._store))
            made = run_input(self._stack, plan, stored, self._on_event, data_file=self._data_file)
            self._data_file, self._inputs[key] = made.data_file, made
        return replace(self._inputs[key], estimate_s=expected_here_s(plan, self._store))


def run_input(
    stack: ExitStack,
    plan: Plan,
    earlier: StoredRun | None,
    on_event: OnEvent,
    *,
    data_file: Path | None,
) -> RunInput:
    """Return the input of a plan's trials.

    Missing servers are installed. If a treatment loads a file, ``data_file`` is used, or generated
    if it is None; ``stack`` removes a generated file.
    """
    work_dir = work_directory(paths.work_dir())
    require_reach(plan, work_dir)
    servers = installed_servers(plan, on_event)
    treatments = treatment_inputs(plan, servers)
    prepared = treatments.values()
    for text in (*options_without_effect(prepared), *requirements.unavailable(prepared)):
        on_event(Notice(text))
    requirements.refuse_without_filesystem(plan, work_dir)
    if not plan.experiment.checked_workload.fills_disk:  # these use a file system of their own
        requirements.refuse_without_holes(prepared, work_dir)
    expected = expected_data(plan.experiment)
    reading = (each.workload for each in prepared if each.workload.reads_a_file)
    if data_file is None and (workload := next(reading, None)) is not None:
        data_file = stack.enter_context(generated_file(workload, work_dir))
    cpu_idle_policy = _cpu_idle_policy(plan, prepared, earlier)
    return RunInput(treatments, expected, data_file, cpu_idle_policy)


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
