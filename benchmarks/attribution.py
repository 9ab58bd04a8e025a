"""Check whether `explain` names the known cause of a difference.

Eleven causes are injected one at a time. A is measured without the cause and B with it, in
interleaved blocks, through the whole product (experiment, plan, runner, store), and `explain` names
the likely causes. The output has, for each cause and server, the rank at which the cause was named
and the first likely causes; then the score, with the goal where all causes were measured. An A/A
comparison, in which nothing differs, must name nothing.

With ``--cases``, comparisons of servers and options whose cause is known are measured instead: the
output has the first-named cause of each and the headline of its report, then the score.

    benchmarks/attribution [--quick] [--server NAME ...] [--cause NAME ...] [--json FILE]
    benchmarks/attribution --cases [--quick] [--case NAME ...] [--json FILE]
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import injections, json_file
from benchmarks.case_results import case_score, line, measure_case
from benchmarks.cases import CASES, CaseSize
from benchmarks.causes import CAUSES, CHANGED, NOTHING, Cause, Size
from benchmarks.certificates import certificates
from benchmarks.injections import Injections
from benchmarks.servers import installed
from millrace.analysis.explain.causes.model import LikelyCause, us_text
from millrace.analysis.explain.explanation import Explanation, explain
from millrace.app.execution import Caller, execute_run, select_run
from millrace.app.experiments import read_experiment
from millrace.app.servers import exclusive_host
from millrace.collect.registry import COLLECTORS, PROFILE
from millrace.errors import MillraceError
from millrace.experiment.model import Experiment, Plan
from millrace.experiment.read import Overrides
from millrace.model.events import ignore
from millrace.store.records import RunRecord
from millrace.store.store import Store

SERVERS = ("mysql-8.0.33", "mariadb-10.11.19")
FIRST_WANTED, AMONG_WANTED, AMONG = 9, 11, 3


@dataclass(frozen=True)
class Named:
    """The outcome of one cause on one server.

    It has the rank of the named cause (None: not named), and all likely causes.

    ``latency_us`` holds the latencies of A and B; ``took_s`` is the duration in seconds."""

    server: str
    cause: str
    rank: int | None
    likely_causes: tuple[LikelyCause, ...]
    latency_us: tuple[float | None, float | None]
    failed: tuple[str, ...]
    took_s: float


def main() -> None:
    arguments = _arguments()
    try:
        if arguments.cases or arguments.case:
            _attribute_cases(arguments)
        else:
            _attribute(arguments)
    except MillraceError as error:
        print(error.message, error.hint or "", sep="; ", file=sys.stderr)
        sys.exit(2)


def _attribute(arguments: argparse.Namespace) -> None:
    causes = [c for c in (*CAUSES, NOTHING) if not arguments.cause or c.name in arguments.cause]
    size = Size(5, 2.0, 0.5, 1.5) if arguments.quick else Size(5, 8.0, 2.0, 30.0)
    found: list[Named] = []
    with ExitStack() as opened:
        opened.enter_context(exclusive_host("attribution of known causes", ignore))
        place = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="millrace-")))
        place.chmod(0o755)  # servers run as another user
        places = certificates(place)
        store = opened.enter_context(Store.open(arguments.store or place / "results.sqlite"))
        for server in arguments.server or SERVERS:
            installed(server)
            for cause in causes:
                text = cause.experiment(server, size, places)
                file = place / f"{cause.name}.toml"
                file.write_text(text, encoding="utf-8")
                found.append(_named(cause, server, file, store))
                print(_line(found[-1]), flush=True)
    for server in dict.fromkeys(each.server for each in found):
        print(score(server, [each for each in found if each.server == server]))
    json_file.write(
        arguments.json, "attribution", size=asdict(size), causes=[asdict(each) for each in found]
    )


def _attribute_cases(arguments: argparse.Namespace) -> None:
    cases = [case for case in CASES if not arguments.case or case.name in arguments.case]
    size = CaseSize(3, 1.0, 0.5) if arguments.quick else CaseSize(5, 2.0, 1.0)
    results = []
    with ExitStack() as opened:
        opened.enter_context(exclusive_host("attribution of known cases", ignore))
        place = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="millrace-")))
        store = opened.enter_context(Store.open(arguments.store or place / "results.sqlite"))
        for case in cases:
            for server in {case.server} if case.server else {case.a, case.b}:
                installed(server)
            results.append(measure_case(case, size, place, store))
            print(line(results[-1]), flush=True)
    print(case_score(results))
    json_file.write(
        arguments.json, "attribution", size=asdict(size), cases=[each.figures() for each in results]
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--server", action="append", metavar="NAME", help=f"may be repeated [{' '.join(SERVERS)}]"
    )
    parser.add_argument(
        "--cause",
        action="append",
        choices=[cause.name for cause in (*CAUSES, NOTHING)],
        help="may be repeated [all of them]",
    )
    parser.add_argument("--cases", action="store_true", help="servers and options of known effect")
    parser.add_argument(
        "--case", action="append", choices=[case.name for case in CASES], help="may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="fewer blocks, of shorter trials")
    parser.add_argument("--store", type=Path, metavar="FILE", help="keep what was measured there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there too")
    return parser.parse_args()


def _named(cause: Cause, server: str, file: Path, store: Store) -> Named:
    """Measure a cause and return what `explain` names."""
    began = time.monotonic()
    run, plan = _measured(cause, file, store)
    stored = store.load_run(run.id, observations_too=True)
    failed = tuple(
        f"{attempt.failed_step}: {attempt.reason}"
        for attempt in stored.last_attempts().values()
        if attempt.outcome == "failed"
    )
    factor, base, candidate = _levels(plan.experiment)
    explained: Explanation
    (explained,) = explain(stored, factor=factor, base=base, candidate=candidate)
    by_times = tuple(each for each in explained.likely_causes if not each.certainty.is_fact)
    latencies = [
        None if side.breakdown is None else side.breakdown.latency.mean
        for side in (explained.a, explained.b)
    ]
    return Named(
        server=server,
        cause=cause.name,
        rank=_rank(cause, by_times),
        likely_causes=by_times,
        latency_us=(latencies[0], latencies[1]),
        failed=failed,
        took_s=time.monotonic() - began,
    )


def _levels(experiment: Experiment) -> tuple[str, Any, Any]:
    compared = next(f for f in experiment.factors if f.name == experiment.compare.factor)
    base, other = compared.levels
    return compared.name, base, other


def _measured(cause: Cause, file: Path, store: Store) -> tuple[RunRecord, Plan]:
    """Execute the experiment as `millrace run` does, with the cause in B's trials."""
    observers = tuple(name for name in COLLECTORS if name not in (PROFILE, injections.NAME))
    overrides = Overrides(collectors=(injections.NAME, *observers))
    experiment = read_experiment(file, overrides=overrides)
    caller = Caller(f"benchmarks/attribution --cause {cause.name}")
    selection = select_run(store, experiment, caller, fresh=True)
    plan = selection.plan
    changed = next(t for t in plan.treatments if CHANGED in t.levels.values()) if (
        cause.inject is not None
    ) else plan.treatments[-1]  # fmt: skip
    injected = Injections(cause.inject, changed.id)
    with ExitStack() as opened, pytest.MonkeyPatch.context() as patched:
        patched.setitem(COLLECTORS, injections.NAME, injected.collector)
        execute_run(opened, store, selection, replace(caller, on_event=injected.watch))
    return selection.run, plan


def _rank(cause: Cause, suspects: Sequence[LikelyCause]) -> int | None:
    """Return the rank, from 1, of the first likely cause that names the injected cause."""
    for rank, suspect in enumerate(suspects, start=1):
        if {(suspect.kind, suspect.about), (suspect.kind, "")} & cause.expected:
            return rank
    return None


def _line(named: Named) -> str:
    """Format the cause, its rank, and the first likely causes."""
    suspects = "; ".join(
        f"{each.kind}: {each.about} ({abs(each.share or 0.0) * 100:.0f} %)"
        for each in named.likely_causes[:AMONG]
    )
    if named.cause == NOTHING.name:
        rank = "named nothing" if not named.likely_causes else "named something"
    else:
        rank = f"rank {named.rank}" if named.rank else "not named"
    lost = f"; {len(named.failed)} trials failed, {named.failed[0]}" if named.failed else ""
    return (
        f"{named.server:17} {named.cause:19} {_latencies(named):22} {rank:15} "
        f"{suspects or 'no suspect'}{lost} [{named.took_s:.0f} s]"
    )


def _latencies(named: Named) -> str:
    a, b = ("?" if us is None else us_text(us) for us in named.latency_us)
    return f"{a} to {b}"


def score(server: str, found: Sequence[Named]) -> str:
    """Return how many causes were named on a server, next to the goal for all causes."""
    causes = [each for each in found if each.cause != NOTHING.name]
    nothing = [each for each in found if each.cause == NOTHING.name]
    first = sum(each.rank == 1 for each in causes)
    among = sum(each.rank is not None and each.rank <= AMONG for each in causes)
    alarms = sum(bool(each.likely_causes) for each in nothing)
    # The goal applies when all causes were measured.
    goals = [f" (wanted: {FIRST_WANTED})", f" (wanted: {AMONG_WANTED})"]
    for_first, for_among = goals if len(causes) == len(CAUSES) else ["", ""]
    said = []
    if causes:
        said.append(
            f"named first {first} of {len(causes)}{for_first}, among the first {AMONG} "
            f"{among}{for_among}"
        )
    if nothing:
        said.append(f"nothing named as a cause {alarms} times (wanted: 0)")
    return f"{server}: {'; '.join(said)}"


if __name__ == "__main__":
    main()
