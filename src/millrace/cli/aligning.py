"""``millrace explain --test-suspects``: run the experiment that shows what settings cost."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from millrace.analysis.alignment import Alignments, given_back
from millrace.analysis.explanation import Explained, Explanation
from millrace.analysis.metrics import read_metrics
from millrace.campaign.aligning import Refuses, aligned_plan, alignments
from millrace.cli.carrying_out import carry_out, new_run
from millrace.cli.console import err
from millrace.cli.quiet_host import quiet_host
from millrace.errors import TrialFailed
from millrace.servers import install, options
from millrace.servers.model import InstalledServer
from millrace.store.records import StoredRun, TreatmentRecord
from millrace.store.store import Store

_SEEDS = 1 << 31


def measure_aligned(
    path: Path, stored: StoredRun, explanation: Explanation, *, blocks: int | None
) -> Alignments:
    """Measure B again with the suspected settings as in A, and return what that gives back.

    Raises UserError where no setting is suspected, and TrialFailed where no block has all trials.
    """
    candidate = _treatment(stored, explanation.b)
    wanted = alignments(explanation.suspects, _refuses(str(candidate.resolved["server"])))
    aligned = aligned_plan(
        stored,
        base=_treatment(stored, explanation.a),
        candidate=candidate,
        wanted=wanted.alignments,
        blocks=blocks or stored.run.blocks,
        seed=secrets.randbelow(_SEEDS),
    )
    for alignment in wanted.alignments:
        settings = ", ".join(f"{name} = {value}" for name, value in alignment.settings.items())
        err.print(f"{explanation.candidate} with {alignment.name}: {settings}", markup=False)
    left_out = tuple(f"not aligned: {each}" for each in wanted.left_out)
    for line in left_out:
        err.print(line, markup=False)
    chosen = new_run(aligned.plan)
    with ExitStack() as stack:
        stack.enter_context(quiet_host(f"run {aligned.plan.experiment.name}"))
        store = stack.enter_context(Store.open(path))
        carry_out(stack, store, chosen, retry_failed=False)
        measured = store.load_run(chosen.run.id)
    found = given_back(
        measured,
        read_metrics(measured.run.spec["workload"])[0],
        base=aligned.base,
        candidate=aligned.candidate,
        aligned=aligned.aligned,
    )
    if found is None:
        raise TrialFailed(
            f"no block of run {chosen.run.id} has a result of every treatment",
            remedy=f"`millrace results show {chosen.run.id}` has each reason",
        )
    return replace(found, run_id=chosen.run.id, left_out=left_out)


def _refuses(name: str) -> Refuses:
    """What the server of that name, which is to be measured again, does not take."""
    server = install.find(name)
    if not isinstance(server, InstalledServer):
        return lambda _option, _value: False
    return partial(options.refuses, server)


def _treatment(stored: StoredRun, explained: Explained) -> TreatmentRecord:
    return next(each for each in stored.treatments if each.levels == explained.levels)
