"""Search a list of servers for a performance change; a block is one trial of one server."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from millrace import workloads
from millrace.analysis.compare import bisection
from millrace.analysis.compare.bisection import Bisection, OpenTrial
from millrace.campaign.blocks import n_blocks
from millrace.campaign.scheduler import Batch, End
from millrace.errors import TrialFailed, UserError, did_you_mean
from millrace.experiment.levels import OPTION, SERVER
from millrace.experiment.model import Compare, Experiment, Factor, Plan, short_name
from millrace.experiment.plan import block_of
from millrace.levels import Level
from millrace.model.events import Announcement, Emitted
from millrace.model.run_spec import Bisects, CampaignPart
from millrace.stats.bisection_model import Next
from millrace.store.records import StoredRun


def servers_between(good: str, bad: str, among: Sequence[str]) -> tuple[str, ...]:
    """Return the servers from ``good`` to ``bad``, in the order of the list or reversed.

    If ``good`` is missing in the list, it is put first; if ``bad`` is missing, it is put last.
    Raise UserError if both are the same, or if the list has a server twice.
    """
    if good == bad:
        raise UserError(f"--good and --bad are both {good}", hint="name two servers that differ")
    twice = sorted({name for name in among if list(among).count(name) > 1})
    if twice:
        said = f"--among has {', '.join(twice)} more than once"
        raise UserError(said, hint="list each server once")
    listed = [*({good} - {*among}), *among, *({bad} - {*among})]
    first, last = listed.index(good), listed.index(bad)
    if first > last:
        listed.reverse()
        first, last = listed.index(good), listed.index(bad)
    return tuple(listed[first : last + 1])


def refuse_unknown(names: Sequence[str], known: Collection[str]) -> None:
    """Raise UserError for unknown servers."""
    for name in names:
        if name not in known:
            raise UserError(
                f"unknown server {name!r}{did_you_mean(name, known)}",
                hint="`millrace servers list` has all; `millrace servers add` adds your own",
            )


def experiment_text(workload: str, servers: Sequence[str]) -> str:
    """Return an experiment file for a built-in workload or one of its tests; else UserError."""
    known = workloads.names()
    of_test = None if workload in known else workloads.of_test(workload)
    if of_test is None and workload not in known:
        raise UserError(
            f"--workload {workload}: no workload, test or experiment file has this name"
            + did_you_mean(workload, known),
            hint=f"use one of {', '.join(known)}, one of their tests, or an experiment file",
        )
    lines = [
        f"name = {json.dumps(short_name(f'bisect-{workload}'))}",
        f"workload = {json.dumps(of_test or workload)}",
        "blocks = 1",
        "collectors = []",
        "[factors]",
        f"server = {json.dumps(list(servers))}",
        *([] if of_test is None else [f"test = {json.dumps([workload])}"]),
        "[compare]",
        f'factor = "{SERVER}"',
        f"base = {json.dumps(servers[0])}",
    ]
    return "\n".join(lines) + "\n"


def bisection_experiment(
    experiment: Experiment,
    servers: Sequence[str],
    *,
    workload: str,
    options: Mapping[str, Level],
    confidence: float,
    by_instructions: bool = False,
) -> Experiment:
    """Return the experiment of a search among ``servers``; all other factors are fixed.

    Raise UserError if another factor has several levels. Raise it also if instructions are to
    decide and the workload has no clients, because only clients' statements are counted.
    """
    if by_instructions and not experiment.checked_workload.drives:
        raise UserError(
            f"{experiment.source}: --by instructions counts the statements of clients, and this "
            "workload has no clients",
            hint="search without --by instructions, or use a workload with clients",
        )
    fixed = {each.name: each for each in experiment.factors if each.name != SERVER}
    fixed |= {f"{OPTION}{name}": Factor(f"{OPTION}{name}", (of,)) for name, of in options.items()}
    counts = {name: len(each.levels) for name, each in fixed.items()}
    several = [f"{name} ({count})" for name, count in counts.items() if count > 1]
    if several:
        raise UserError(
            f"{experiment.source}: factors with several levels: {', '.join(several)}; a search "
            "needs one level of each factor except the server",
            hint="use a file with one level of each factor",
        )
    asked = Bisects(
        members=tuple(servers), workload=workload, confidence=confidence, margin=experiment.margin
    )
    if by_instructions:
        asked = asked.replace(by="instructions")
    return replace(
        experiment,
        name=short_name(f"bisect-{experiment.name.removeprefix('bisect-')}"),
        title=f"the change between {servers[0]} and {servers[-1]}",
        factors=(Factor(SERVER, tuple(servers)), *fixed.values()),
        compare=Compare(SERVER, servers[0]),
        blocks=1,
        sequential=False,
        max_time_s=None,
        profile_blocks=0,
        counted_starts=1 if by_instructions else 0,
        published=None,
        campaign=CampaignPart(bisects=asked),
    )


def member_plan(experiment: Experiment, server: str, *, seed: int, block: int) -> Plan:
    """Return the plan of block number ``block``: one trial of one server."""
    plan = block_of(experiment, SERVER, (server,), seed=seed, block=block)
    return plan.only(plan.trials, after=block)


@dataclass(frozen=True)
class BisectionReviewed(Announcement):
    """A trial of ``server`` has ended; ``found`` is the state of the search after it."""

    found: Bisection
    server: str


class Bisect:
    """The policy of a search: measure one trial at a time, of the most informative server."""

    def __init__(self, experiment: Experiment, *, seed: int) -> None:
        self._experiment = experiment
        self._seed = seed
        self._measured: str | None = None

    def next_batch(self, stored: StoredRun | None) -> Batch | End:
        """Return the unfinished trial, else the next one; see ``campaign.scheduler.Policy``."""
        found = None if stored is None else bisection.bisection(stored)
        events: tuple[Emitted, ...] = ()
        if found is not None and self._measured is not None:
            events = (BisectionReviewed(found, self._measured),)
        if found is not None and found.lost_end:
            lost = TrialFailed(
                f"the first or last server of the list cannot be measured: {found.lost_end}",
                hint="use another server for --good or --bad",
            )
            return End("lost", events, lost)
        following = _following(found, n_blocks(stored))
        if following is None or (
            found is not None and (found.unsteady or bisection.is_reversed(found))
        ):
            return End("done", events)
        self._measured = str(self._experiment.factors[0].levels[following.member])
        plan = member_plan(self._experiment, self._measured, seed=self._seed, block=following.block)
        return Batch(
            plan,
            max(following.block + 1, n_blocks(stored)),
            resumes=found is not None and found.open is not None,
            retry_failed=True,
            preparation_step=bisection.INSTALL,
            events=events,
        )


def _following(found: Bisection | None, block: int) -> OpenTrial | None:
    if found is None:
        return OpenTrial(0, 0)
    if found.open is not None:
        return found.open
    return OpenTrial(block, found.step.index) if isinstance(found.step, Next) else None
