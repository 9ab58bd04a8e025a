"""Read an attempt's observations (``millrace.model.observations``) as those of its work.

A section whose amounts are counted between two readings says how late its first one was
(``late_s``); its counted values are scaled to the whole window before anything else reads them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from millrace.analysis.explain import threads
from millrace.analysis.explain.observations import Observed, ObservedTrial, Profile, Work
from millrace.levels import Level
from millrace.model import measurements
from millrace.model.documents import Accrued, Document
from millrace.model.observations import (
    Disk,
    HostActivity,
    Missing,
    Observations,
    ProfileSamples,
    Section,
    Waits,
)
from millrace.model.phases import MeasuredPhases
from millrace.model.roles import MEASURED
from millrace.model.run_spec import WorkloadDefinition
from millrace.stats.mean import complete_sum
from millrace.store.records import StoredAttempt, StoredRun, TreatmentRecord

_OF_WAITS = ("digests", "stages")  # sections that ``waits`` reads in the same go


def observed_trials(
    stored: StoredRun,
    treatment: TreatmentRecord,
    *,
    purpose: Literal["measure", "profile"] = "measure",
) -> tuple[ObservedTrial, ...]:
    """Return the finished trials of a treatment that did any work, in the order of their blocks."""
    chosen = stored.run.spec.chosen(treatment.levels)
    clients = int(chosen.get("clients") or 1)
    connections = loaders(stored.run.spec.workload, chosen)
    last = stored.last_attempts()
    found = []
    for trial in sorted(stored.trials, key=lambda trial: trial.block):
        attempt = last.get(trial.id)
        if trial.treatment_id != treatment.id or trial.purpose != purpose or attempt is None:
            continue
        if attempt.outcome == "finished":
            each = observed(attempt, stored.run.phases, clients=clients, loaders=connections)
            found += [] if each is None else [ObservedTrial(trial.id, trial.block, attempt, each)]
    return tuple(found)


def loaders(workload: WorkloadDefinition, chosen: Mapping[str, Level]) -> int | None:
    """Return the number of connections, one a table at most, that load a workload's tables.

    ``chosen`` are parameters and levels. A workload without tables of its own loads a data set, by
    one LOAD DATA over one connection. None where the number is unknown.
    """
    tables = _tables(workload, chosen) if workload.tables else 1
    asked = int(chosen.get("load_threads") or 0)
    if workload.tables and int(chosen.get("load_chunk_rows") or 0):
        return asked or None
    if tables == 1:
        return 1
    return min(asked, tables) if asked and tables else asked or None


def _tables(workload: WorkloadDefinition, chosen: Mapping[str, Level]) -> int | None:
    tables = (workload.tables or {}).values()
    known = complete_sum(_count(table.count, chosen) for table in tables)
    return None if known is None else int(known)


def _count(written: int | str | None, chosen: Mapping[str, Level]) -> int | None:
    """Return a number, or the value of the parameter that holds it: ``{tables}``."""
    if written is None:
        return 1
    text = str(written)
    value = chosen.get(text[1:-1]) if text.startswith("{") else text
    return None if value is None else int(value)


def observed(
    attempt: StoredAttempt, phases: MeasuredPhases, *, clients: int, loaders: int | None = 1
) -> Observed | None:
    """Return what was observed of the work of ``clients``, or of ``loaders``; None without work.

    The work of a replica is that of its threads that apply changes, however many there are.
    """
    found = attempt.observations
    at_once = threads.n_appliers(found) if phases.of_replica else loaders
    work = _work(attempt, phases, clients, at_once)
    if work is None:
        return None
    found = scale_to_window(found)
    pooled = _is_pooled(attempt)
    served = threads.served(found, work, pooled=pooled)
    waits = found.waits or Waits()
    return Observed(
        work=work,
        window_s=found.window_s,
        pooled=pooled,
        process=None if found.threads is None else found.threads.process,
        foreground=served.foreground,
        background=served.background,
        states=served.states,
        statements=threads.statements(found),
        disk=found.disk if _is_whole(found.disk) else None,
        grown=None if found.status is None else found.status.grown,
        counters=None if found.status is None else found.status.counters,
        has_waits=bool(waits.enabled),
        waits=waits.events or (),
        digests=found.digests or (),
        stages=found.stages or (),
        plans=found.plans or {},
        host=found.host or HostActivity(),
        profile=_profile(found.profile),
        missing=(
            *_of_load(work),
            *served.missing,
            *_of_statements(attempt, found),
            *(found.missing or ()),
        ),
    )


def scale_to_window(found: Observations) -> Observations:
    """Return observations with each section scaled to the whole window.

    A section whose first reading was late missed as much as it counted in a time of equal length.
    """
    window_s = found.window_s
    scaled = {}
    for name, section in found:
        late_s = section.late_s if isinstance(section, Section) else None
        if window_s is None or late_s is None or not 0 < late_s < window_s:
            continue
        factor = window_s / (window_s - late_s)
        for each in (name, *_OF_WAITS) if name == "waits" else (name,):
            scaled[each] = _times(getattr(found, each), factor)
    return found.model_copy(update=scaled)


def _times(value: Any, factor: float, *, accrued: bool = False) -> Any:
    """Return a part of the observations with its accrued amounts multiplied."""
    match value:
        case Document():
            fields = type(value).model_fields
            scaled = {
                name: _times(each, factor, accrued=any(isinstance(m, Accrued) for m in of.metadata))
                for name, of in fields.items()
                if (each := getattr(value, name)) is not None
            }
            return value.model_copy(update=scaled)
        case Mapping():
            return {name: _times(each, factor, accrued=accrued) for name, each in value.items()}
        case tuple():
            return tuple(_times(each, factor, accrued=accrued) for each in value)
        case int() | float() if accrued and not isinstance(value, bool):
            return value * factor
    return value


def _work(
    attempt: StoredAttempt, phases: MeasuredPhases, clients: int, at_once: int | None
) -> Work | None:
    """Return the work of driven ``clients``, else of as many loaders or appliers ``at_once``."""
    measured = attempt.measured
    client_cpu_s = complete_sum(
        measured.get(name)
        for name in (measurements.LOAD_GENERATOR_USER_S, measurements.LOAD_GENERATOR_SYSTEM_S)
    )
    duration_s = sum(measured.get(name, 0.0) for name in phases.durations)
    elapsed_s = measured.get(measurements.ROUND_S, duration_s)
    if min(duration_s, elapsed_s) <= 0:
        return None
    if phases.driven is not None and not phases.of_replica:
        if not measured.get(measurements.TRANSACTIONS):
            return None
        tried = measured[measurements.TRANSACTIONS] + measured.get(measurements.ERRORS, 0.0)
        gap_s = measured.get(measurements.MEAN_GAP_S)
        return Work(
            noun="transaction",
            loop="open" if measured.get(measurements.SCHEDULED) or gap_s is None else "closed",
            clients=clients,
            operations=measured[measurements.TRANSACTIONS],
            duration_s=duration_s,
            elapsed_s=elapsed_s,
            latency_s=_latency_s(attempt),
            gap_s=gap_s,
            client_cpu_s=client_cpu_s,
            failed=measured.get(measurements.ERRORS, 0.0) / tried,
        )
    transactions = measured.get(measurements.REPLICATED_TRANSACTIONS)
    operations = transactions or measured.get(measurements.ROWS)
    if operations is None or operations <= 0:
        return None
    return Work(
        noun="transaction" if transactions else "row",
        loop="load",
        clients=at_once or 1,
        operations=operations,
        duration_s=duration_s,
        elapsed_s=elapsed_s,
        latency_s=None if at_once is None else at_once * duration_s / operations,
        gap_s=0.0,  # the clock runs while rows are made too
        client_cpu_s=client_cpu_s,
        failed=0.0,
    )


def _latency_s(attempt: StoredAttempt) -> float | None:
    records = [h for h in attempt.histograms if h.of == "transaction" and h.kind == "service"]
    count = sum(record.count for record in records)
    return sum(record.sum_s for record in records) / count if count else None


def _is_pooled(attempt: StoredAttempt) -> bool:
    servers = [instance for instance in attempt.instances if instance.role in MEASURED]
    how = servers[0].effective.get("thread_handling", "") if servers else ""
    return "pool" in how


def _is_whole(disk: Disk | None) -> bool:
    """Return whether all figures are known but those of flushes, which old kernels lack."""
    return disk is not None and all(
        value is not None for name, value in disk if name not in ("late_s", "flushes", "flush_s")
    )


def _profile(found: ProfileSamples | None) -> Profile | None:
    if found is None or not found.stacks:
        return None
    return Profile(
        event=found.event,
        call_graph=found.call_graph,
        with_kernel=found.with_kernel,
        samples=sum(found.stacks.values()),
        lost=int(found.lost or 0),
        runs=found.runs or 1,  # nothing was repeated before it was recorded
        stacks=found.stacks,
    )


def _of_load(work: Work) -> Iterator[Missing]:
    if work.loop == "load" and work.latency_s is None:
        yield Missing(
            observer="threads",
            what="how many connections loaded the table, so that there is no account of a row",
            hint="set load_threads under [parameters] in the experiment",
        )


def _of_statements(attempt: StoredAttempt, found: Observations) -> Iterator[Missing]:
    """Yield the breakdown of statements that older documents lack."""
    names = {record.name for record in attempt.histograms if record.of == "statement"}
    if found.states is not None and found.states.statements is None and len(names) > 1:
        yield Missing(
            observer="states",
            what="which statement a thread works for, so that there is no account of each",
            hint="measure again with this millrace",
        )
