"""Decode an attempt's observations, one document of version 1 (see ``millrace.collect``), to typed
values.

A section whose amounts are counted between two readings says how late its first one was
(``late_s``); its amounts are made those of the whole window here, before anything else reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Literal

from millrace.analysis.explain import threads
from millrace.analysis.explain.observations import (
    Disk,
    Missing,
    Observed,
    ObservedTrial,
    Profile,
    Work,
)
from millrace.analysis.explain.scale_to_window import number, scale_to_window, section
from millrace.levels import Level
from millrace.model import measurements
from millrace.model.phases import MeasuredPhases
from millrace.model.run_spec import WorkloadDefinition
from millrace.store.records import StoredAttempt, StoredRun, TreatmentRecord, TrialRecord

VERSION = 1


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
        if trial.treatment_id == treatment.id and trial.purpose == purpose:
            told = _trial(trial, last.get(trial.id), clients, connections, stored.run.phases)
            found += [told] if told is not None else []
    return tuple(found)


def _trial(
    trial: TrialRecord,
    attempt: StoredAttempt | None,
    clients: int,
    loaders: int | None,
    phases: MeasuredPhases,
) -> ObservedTrial | None:
    if attempt is None or attempt.outcome != "finished":
        return None
    told = observed(attempt, phases, clients=clients, loaders=loaders)
    return None if told is None else ObservedTrial(trial.id, trial.block, attempt, told)


def loaders(workload: WorkloadDefinition, chosen: Mapping[str, Level]) -> int | None:
    """Return the number of connections that load the tables of a workload, one a table at most;
    None where the load generator chose it and nobody recorded it. ``chosen`` are parameters and
    levels.

    A workload without tables of its own loads a data set, by one LOAD DATA over one connection.
    """
    tables = _tables(workload, chosen) if workload.tables else 1
    asked = int(chosen.get("load_threads") or 0)
    if tables == 1:
        return 1
    return min(asked, tables) if asked and tables else asked or None


def _tables(workload: WorkloadDefinition, chosen: Mapping[str, Level]) -> int | None:
    """Return the number of a workload's tables; None where it does not say."""
    counts = [_count(table.count, chosen) for table in (workload.tables or {}).values()]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _count(told: int | str | None, chosen: Mapping[str, Level]) -> int | None:
    """Return a number, or the value of the parameter that holds it: ``{tables}``."""
    if told is None:
        return 1
    text = str(told)
    value = chosen.get(text[1:-1]) if text.startswith("{") else text
    return None if value is None else int(value)


def observed(
    attempt: StoredAttempt, phases: MeasuredPhases, *, clients: int, loaders: int | None = 1
) -> Observed | None:
    """Decode the observations of an attempt; None where it measured no work.

    ``phases`` are those of its workload; ``clients`` clients drove it, or ``loaders`` connections
    loaded a table.
    """
    work = _work(attempt, phases, clients, loaders)
    if work is None:
        return None
    document = attempt.observations
    unread: tuple[Missing, ...] = ()
    if document and document.get("version") != VERSION:
        unread = (
            Missing(
                "all",
                f"its observations are of version {document.get('version')}, "
                f"which this millrace cannot read",
                "explain this run with the millrace that measured it, or a newer one",
            ),
        )
        document = {}
    document = scale_to_window(document)
    pooled = _is_pooled(attempt)
    served = threads.served(document, work, pooled=pooled)
    process = section(document, "threads").get("process")
    status = section(document, "status")
    waits = section(document, "waits")
    return Observed(
        work=work,
        window_s=number(document, "window_s"),
        pooled=pooled,
        process=threads.usage([process]) if process else None,
        foreground=served.foreground,
        background=served.background,
        states=served.states,
        statements=threads.statements(document),
        disk=_disk(section(document, "disk")),
        status=_numbers(status.get("deltas") or {}) if status else None,
        gauges=status.get("gauges") or {},
        metrics=_numbers(status.get("metrics") or {}),
        has_waits=bool(waits.get("enabled")),
        waits=waits.get("events") or (),
        digests=document.get("digests") or (),
        stages=document.get("stages") or (),
        plans=section(document, "plans"),
        host=section(document, "host"),
        profile=_profile(section(document, "profile")),
        missing=(
            *unread,
            *_of_load(work),
            *served.missing,
            *_of_statements(attempt, document),
            *_missing(document),
        ),
    )


def _work(
    attempt: StoredAttempt, phases: MeasuredPhases, clients: int, loaders: int | None
) -> Work | None:
    measured = attempt.measured
    cpu = [
        measured.get(name)
        for name in (measurements.LOAD_GENERATOR_USER_S, measurements.LOAD_GENERATOR_SYSTEM_S)
    ]
    client_cpu_s = None if None in cpu else sum(filter(None, cpu))
    duration_s = sum(measured.get(name, 0.0) for name in phases.durations)
    if not duration_s:
        return None
    if phases.driven is not None:
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
            latency_s=_latency_s(attempt),
            gap_s=gap_s,
            client_cpu_s=client_cpu_s,
            failed=measured.get(measurements.ERRORS, 0.0) / tried,
        )
    if not measured.get(measurements.ROWS):
        return None
    return Work(
        noun="row",
        loop="load",
        clients=loaders or 1,
        operations=measured[measurements.ROWS],
        duration_s=duration_s,
        latency_s=None if loaders is None else loaders * duration_s / measured[measurements.ROWS],
        gap_s=0.0,  # the clock runs while rows are made too
        client_cpu_s=client_cpu_s,
        failed=0.0,
    )


def _latency_s(attempt: StoredAttempt) -> float | None:
    """Return the exact mean service time of a transaction."""
    records = [h for h in attempt.histograms if h.of == "transaction" and h.kind == "service"]
    count = sum(record.count for record in records)
    return sum(record.sum_s for record in records) / count if count else None


def _is_pooled(attempt: StoredAttempt) -> bool:
    servers = [instance for instance in attempt.instances if instance.role == "server"]
    how = servers[0].effective.get("thread_handling", "") if servers else ""
    return "pool" in how


def _disk(told: Mapping[str, Any]) -> Disk | None:
    if not told:
        return None
    values = {each.name: number(told, each.name) for each in fields(Disk) if each.name != "device"}
    if any(value is None for name, value in values.items() if not name.startswith("flush")):
        return None
    return Disk(device=str(told.get("device")), **values)  # type: ignore[arg-type]


def _profile(told: Mapping[str, Any]) -> Profile | None:
    if not told.get("stacks"):
        return None
    stacks = {str(stack): int(count) for stack, count in told["stacks"].items()}
    return Profile(
        event=str(told.get("event", "")),
        frequency_hz=float(told.get("frequency_hz") or 0),
        call_graph=str(told.get("call_graph", "none")),
        with_kernel=told.get("with_kernel"),
        samples=sum(stacks.values()),
        lost=int(told.get("lost") or 0),
        seconds=float(told.get("seconds") or 0),
        runs=int(told.get("runs") or 1),  # nothing was repeated before it was told
        stacks=stacks,
    )


def _of_load(work: Work) -> Iterator[Missing]:
    if work.loop == "load" and work.latency_s is None:
        yield Missing(
            "threads",
            "how many connections loaded the table, so that there is no account of a row",
            "set load_threads under [parameters] in the experiment",
        )


def _of_statements(attempt: StoredAttempt, document: Mapping[str, Any]) -> Iterator[Missing]:
    """Yield the missing breakdown of statements, for documents older than the statement
    activity."""
    states = section(document, "states")
    names = {record.name for record in attempt.histograms if record.of == "statement"}
    if states and "statements" not in states and len(names) > 1:
        yield Missing(
            "states",
            "which statement a thread works for, so that there is no account of each",
            "measure again with this millrace",
        )


def _missing(document: Mapping[str, Any]) -> Iterator[Missing]:
    for each in document.get("missing") or ():
        yield Missing(
            str(each.get("observer", "")), str(each.get("what", "")), str(each.get("remedy") or "")
        )


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    known = {name: number(values, name) for name in values}
    return {name: value for name, value in known.items() if value is not None}
