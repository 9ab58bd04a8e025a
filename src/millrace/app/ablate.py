"""``millrace explain --test-suspects``: run the experiment that shows what settings cost."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Literal

from millrace import databases
from millrace.analysis.explain.ablation import Ablation, ablation
from millrace.analysis.explain.model import Explanation, SideExplanation
from millrace.app.run import carry_out, new_run
from millrace.campaign.policies.ablate import AlignedPlan, Refuses, aligned_plan, alignments
from millrace.campaign.resume import Chosen
from millrace.cli.console import err
from millrace.cli.exclusive_host import quiet_host
from millrace.errors import Interrupted, TrialFailed
from millrace.experiment.levels import OPTION
from millrace.model.servers import InstalledServer
from millrace.servers import install, options
from millrace.store.records import StoredRun, TreatmentRecord
from millrace.store.store import Store

_SEEDS = 1 << 31


def measure_aligned(
    path: Path, stored: StoredRun, explanation: Explanation, *, blocks: int | None
) -> Ablation:
    """Measure B again with the suspected settings as in A, and return what that gives back.

    Raises UserError where no setting is suspected, and TrialFailed where no block has a result of
    A, of B and of an alignment.
    """
    candidate = _treatment(stored, explanation.b)
    wanted = alignments(
        explanation.likely_causes,
        _refuses(candidate),
        _given(explanation.b),
    )
    aligned = aligned_plan(
        stored,
        base=_treatment(stored, explanation.a),
        candidate=candidate,
        wanted=wanted,
        blocks=blocks or stored.run.blocks,
        seed=secrets.randbelow(_SEEDS),
    )
    for alignment in wanted.alignments:
        values = {**alignment.settings, **alignment.needed}
        settings = ", ".join(f"{name} = {value}" for name, value in values.items())
        err.print(f"{explanation.candidate} with {alignment.name}: {settings}", markup=False)
    for line in wanted.left_out:
        err.print(f"not aligned: {line}", markup=False)
    measured = _measure(path, aligned)
    found = ablation(measured)
    if found is None:
        raise TrialFailed(
            f"no block of run {measured.run.id} has a result of A, of B and of an alignment",
            hint=f"`millrace results show {measured.run.id}` has each reason",
        )
    return found


def _measure(path: Path, aligned: AlignedPlan) -> StoredRun:
    """Carry the plan out as a run that is recorded with what it tests."""
    chosen = _chosen(aligned)
    with ExitStack() as stack:
        stack.enter_context(quiet_host(f"run {aligned.plan.experiment.name}"))
        store = stack.enter_context(Store.open(path))
        try:
            carry_out(stack, store, chosen, retry_failed=False)
        except Interrupted as stopped:
            hint = (
                f"`millrace explain {aligned.test.run}` tells what the blocks so far show; "
                "with --test-suspects it begins anew"
            )
            raise Interrupted(stopped.message, hint=hint) from None
        return store.load_run(chosen.run.id)


def _chosen(aligned: AlignedPlan) -> Chosen:
    chosen = new_run(aligned.plan)
    spec = chosen.run.spec.replace(tested=aligned.test)
    return replace(chosen, run=replace(chosen.run, spec=spec))


def _refuses(treatment: TreatmentRecord) -> Refuses:
    """What the server of a treatment, which is to be measured again, does not take."""
    server = install.find(str(treatment.resolved["server"]))
    if not isinstance(server, InstalledServer):
        return lambda _option, _value: None

    def refuses(name: str, value: str | None) -> Literal["option", "value"] | None:
        if not {name, f"{OPTION}{name}"}.isdisjoint(treatment.levels):
            return None  # a factor, not an option; or one that the run has tried
        rules = databases.get(server.family).options
        if not options.knows(rules, options.known(server), name):
            return "option"
        return "value" if options.refuses(server, name, value) else None

    return refuses


def _given(explained: SideExplanation) -> frozenset[str]:
    """The options that a side's server was given."""
    if explained.instance is None:
        return frozenset()
    given = (each for each in explained.instance.options if each.left_out is None)
    return frozenset(form for each in given for form in databases.option_forms(each.name))


def _treatment(stored: StoredRun, explained: SideExplanation) -> TreatmentRecord:
    return next(each for each in stored.treatments if each.levels == explained.levels)
