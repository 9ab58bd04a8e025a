"""Build explanations from observations: complete ones, and nearly empty ones."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from millrace.analysis.certainty import Certainty
from millrace.analysis.explain.causes.model import LikelyCause
from millrace.analysis.explain.explanation import Explanation, explain
from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.statement_breakdown import (
    statement_breakdown_differences,
    statement_breakdowns,
)
from millrace.levels import Level
from millrace.model.observations import Observations
from millrace.model.run_spec import CompareSpec, FactorSpec
from millrace.report.explanation import terminal as explain_terminal
from millrace.report.explanation.html import as_html
from millrace.store.records import StoredRun, TreatmentRecord
from tests.support.counted_starts import BASE, MORE, with_counts
from tests.support.flame_trees import STACKS
from tests.support.observed_trials import A, B, Truth, explained_run
from tests.support.reports import terminal_text

_TRUTH = {
    A: Truth(
        cpu_user=22.4, cpu_system=11.2, runnable=1.1, waits={"log_flush": 4.0, "lock": 0.6},
        wire=14.0, gap=5.0, background={"page_cleaner": 0.6},
    ),
    B: Truth(
        cpu_user=33.1, cpu_system=12.4, runnable=1.3, waits={"log_flush": 6.5, "lock": 1.9},
        wire=14.2, gap=5.0, background={"log": 2.4, "page_cleaner": 0.9},
    ),
}  # fmt: skip

SUSPECTS = (
    LikelyCause(
        kind="option",
        about="binary log",
        sentence="the binary log is on in mysql-9.7.4 alone, synced at each commit",
        evidence=(
            "log_bin: OFF and ON",
            "sync_binlog: 0 and 1",
            "waiting for the log grew by 2.5 µs",
        ),
        us=9.1,
        share=0.54,
        settings={"log_bin": ("OFF", "ON")},
    ),
    LikelyCause(
        kind="build",
        about="compiler",
        sentence="mysql-9.7.4 was built by another compiler",
        evidence=(),
        us=0.0,
        share=0.0,
    ),
    LikelyCause(
        kind="cpu",
        about="parsing",
        sentence="parsing takes longer",
        evidence=("MYSQLparse: +1.8 µs",),
        us=3.0,
        share=0.18,
        certainty=Certainty.SHOWN,
    ),
)


def explained_study(*, counted: bool = False) -> Explanation:
    """Return the explanation of two servers with everything observed."""
    (found,) = explain(study_run(counted=counted), factor="server", base=A, candidate=B)
    return replace(found, likely_causes=SUSPECTS)


def with_statements(
    study: Explanation, a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]
) -> Explanation:
    """Return the explanation with the statements of other trials."""
    return replace(
        study,
        a=replace(study.a, statement_breakdowns=statement_breakdowns(a)),
        b=replace(study.b, statement_breakdowns=statement_breakdowns(b)),
        statement_breakdown_differences=statement_breakdown_differences(a, b),
    )


def study_run(
    *, profiled: int = 3, clients: tuple[int, ...] = (1,), counted: bool = False
) -> StoredRun:
    found = explained_run(_told, blocks=5, profiled=profiled, clients=clients)
    return with_counts(found, {A: BASE.starts, B: MORE.starts}) if counted else found


def of_levels(stored: StoredRun, factor: str, a: Level, b: Level) -> StoredRun:
    """Return the run as one of a single server, in which these two levels are compared."""
    names = {A: a, B: b}

    def renamed(treatment: TreatmentRecord) -> TreatmentRecord:
        levels = {**treatment.levels, "server": A, factor: names[str(treatment.levels["server"])]}
        return replace(treatment, levels=levels, resolved=levels)

    factors = [
        each.replace(levels=[A]) if each.name == "server" else each
        for each in stored.run.spec.factors
        if each.name != factor
    ]
    spec = stored.run.spec.replace(
        factors=[*factors, FactorSpec(name=factor, levels=(a, b))],
        compare=CompareSpec(factor=factor, base=a),
    )
    return replace(
        stored,
        run=replace(stored.run, spec=spec),
        treatments=tuple(map(renamed, stored.treatments)),
    )


def unprofiled() -> Explanation:
    """Return an explanation with threads observed and nothing else."""

    def result(server: str, block: int) -> tuple[Truth, Mapping[str, Any]]:
        return _TRUTH[server].times(_noise(server, block)), {}

    (found,) = explain(explained_run(result), factor="server", base=A, candidate=B)
    return found


def unobserved() -> StoredRun:
    """Return a run from before collectors existed."""
    stored = study_run(profiled=0)
    attempts = tuple(replace(attempt, observations=Observations()) for attempt in stored.attempts)
    return replace(stored, attempts=attempts)


def first_blocks(stored: StoredRun, number: int) -> StoredRun:
    """Return the run as it was after this many blocks."""
    trials = tuple(trial for trial in stored.trials if trial.block < number)
    ids = {trial.id for trial in trials}
    attempts = tuple(each for each in stored.attempts if each.trial_id in ids)
    return replace(stored, trials=trials, attempts=attempts)


def _told(server: str, block: int) -> tuple[Truth, Mapping[str, Any]]:
    new = server == B
    missing = {
        "observer": "threads",
        "what": "/proc/PID/io of the server may not be read",
        "hint": "run as root, or as the server's user",
    }
    plan = {
        "id": 1, "select_type": "SIMPLE", "table": "sbtest1", "type": "ALL" if new else "ref",
        "key": None if new else "k_1", "rows": 20_000 if new else 3, "Extra": None,
    }  # fmt: skip
    operations = 3.0 / (_TRUTH[server].cycle * 1e-6)
    sections: dict[str, Any] = {
        "disk": {
            "device": "vda", "reads": 3.0, "writes": operations * (1.4 if new else 1.1),
            "read_bytes": 12_288.0, "write_bytes": operations * (9_000 if new else 6_100),
            "flushes": operations, "read_s": 0.01, "write_s": 1.0, "flush_s": 1.2, "busy_s": 1.9,
        },
        "status": {
            "deltas": {
                "Innodb_data_fsyncs": operations, "Innodb_os_log_written": operations * 1024,
                "Handler_read_key": operations,
            },
            "gauges": {"Threads_connected": 2},
            "metrics": {},
        },
        "waits": {
            "enabled": new,
            "why": None,
            "events": [
                {"name": "wait/io/file/innodb/innodb_log_file", "count": operations,
                 "wait_s": operations * 6.1e-6},
                {"name": "wait/synch/mutex/innodb/trx_mutex", "count": operations * 9,
                 "wait_s": operations * 0.4e-6},
            ],
        },
        "digests": [
            {
                "text": "INSERT INTO `sbtest1` ( `id` , `k` ) VALUES (...)", "count": operations,
                "wait_s": operations * 40e-6, "lock_s": operations * 1e-6, "cpu_s": None,
                "rows_examined": 0, "rows_sent": 0, "rows_affected": operations,
                "tmp_tables": 0, "tmp_disk_tables": 0, "no_index_used": 0, "sort_rows": 0,
                "errors": 0,
            }
        ],
        "plans": {
            "insert_next": {
                "sql": "INSERT INTO sbtest1 (id, k) VALUES (7, 8)", "rows": [plan], "error": None,
            }
        },
        "host": {"disturbed": ["a backup used 0.4 of a CPU"] if block == 2 and new else []},
        "missing": [missing] if new else [],
        "profile": {
            "event": "cpu-clock", "frequency_hz": 999.0, "call_graph": "fp", "lost": 0,
            "seconds": 3.0, "samples": 0, "stacks": _stacks(new, block),
        },
    }  # fmt: skip
    return _TRUTH[server].times(_noise(server, block)), sections


def _noise(server: str, block: int) -> float:
    return random.Random(f"{server}:{block}").lognormvariate(0, 0.012)


def _stacks(new: bool, block: int) -> dict[str, int]:
    source = random.Random(f"{new}:{block}")
    found = {}
    for line in STACKS.strip().splitlines():
        path, a, b = line.rsplit(" ", 2)
        count = round(float(b if new else a) * 80 * source.lognormvariate(0, 0.05))
        if count:
            found[path] = count
    return found


def explained_text(explanations: Sequence[Explanation], *, width: int = 120) -> str:
    return terminal_text(partial(explain_terminal.show, explanations), width=width)


def explained_page(*explanations: Explanation) -> str:
    return as_html(explanations, explanations[0].run)
