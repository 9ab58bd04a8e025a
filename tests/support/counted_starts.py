"""Build starts of servers whose statements were counted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from millrace.model.instruction_counts import (
    CountedStart,
    Program,
    Repetition,
    TreatmentStarts,
    stored_counts,
)
from millrace.model.observations import Observations
from millrace.store.records import StoredRun, TrialRecord

OLD = Program(
    compilers=("GCC: (GNU) 4.1.2 20080704 (Red Hat 4.1.2-46)", "GCC: (GNU) 4.1.2 20080704"),
    position_independent=False,
)
NEW = Program(
    compilers=("GCC: (GNU) 11.2.1", "clang version 15.0.7", "a linker"), position_independent=True
)


def start(*instructions: float, extra: float = 0.0) -> CountedStart:
    """Return a start with these repetitions; ``extra`` ones are in a function of its own."""
    mean = sum(instructions) / len(instructions)
    paths = {("run",): 0.4 * mean, ("run", "read"): 0.6 * mean - extra}
    if extra:
        paths["run", "read", "extra"] = extra
    repetitions = tuple(
        Repetition(instructions=each, background=25.0, number=number)
        for number, each in enumerate(instructions)
    )
    return CountedStart(480, repetitions, paths, {"read": "mysqld"})


def treatment(
    server: str,
    starts: Sequence[CountedStart],
    *,
    test: str = "point-query",
    program: Program | None = OLD,
    failure: str | None = None,
    failed: int = 0,
) -> TreatmentStarts:
    levels = {"server": server, "configuration": "cached-oltp", "test": test}
    return TreatmentStarts(levels, tuple(starts), program, failure, failed)


def with_counts(stored: StoredRun, counts: Mapping[str, Sequence[CountedStart]]) -> StoredRun:
    """Return the run with starts that were counted, by the names of servers."""
    trials, attempts = list(stored.trials), list(stored.attempts)
    sample = attempts[0]
    for treatment_id, server in one_of_clients(stored).items():
        for block, found in enumerate(counts.get(server, ())):
            trial = f"{treatment_id}-c{block}"
            trials.append(TrialRecord(trial, treatment_id, block, len(trials), "count"))
            document = {"instructions": stored_counts(found, OLD, "3.19.0")}
            attempts.append(
                replace(
                    sample, id=len(attempts) + 1, trial_id=trial, histograms=(), measurements=(),
                    series=(), observations=Observations.model_validate(document),
                )
            )  # fmt: skip
    return replace(stored, trials=tuple(trials), attempts=tuple(attempts))


def one_of_clients(stored: StoredRun) -> dict[str, str]:
    """Return the server of each treatment, but for those that differ in clients alone."""
    first: dict[str, str] = {}
    for each in stored.treatments:
        levels = {name: level for name, level in each.levels.items() if name != "clients"}
        first.setdefault(str(levels), each.id)
    servers = {each.id: str(each.levels["server"]) for each in stored.treatments}
    return {treatment_id: servers[treatment_id] for treatment_id in first.values()}


BASE = treatment("old", [start(1000, 1001, 1002), start(1003, 1001, 1002), start(999, 1002, 1001)])
MORE = treatment(
    "new",
    [
        start(1065, 1064, 1066, extra=64), start(1067, 1065, 1066, extra=65),
        start(1064, 1066, 1065, extra=64),
    ],
    program=NEW,
)  # fmt: skip
