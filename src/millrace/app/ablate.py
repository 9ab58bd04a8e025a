"""Measure how much of a difference each likely cause makes, by removing it."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from millrace import databases
from millrace.analysis.explain.ablation import ablation
from millrace.analysis.explain.explanation import SideExplanation, with_ablation
from millrace.app.execution import Caller, execute_run, measuring, new_run
from millrace.app.explain import ExplainedRun, titles
from millrace.campaign.policies import ablate as policy
from millrace.errors import Interrupted, TrialFailed, UserError
from millrace.experiment.levels import OPTION
from millrace.experiment.plan import random_seed
from millrace.model.events import Notice
from millrace.model.servers import InstalledServer
from millrace.servers import install, options
from millrace.store.records import StoredRun, TreatmentRecord

_MOST_BLOCKS = 10  # the default limit: each block has a trial of A, of B and of every alignment


def ablate(
    path: Path, explained: ExplainedRun, caller: Caller, *, blocks: int | None = None
) -> ExplainedRun:
    """Measure B again with its suspected settings changed to A's values, in a separate run.

    Return the explanation with the results. ``blocks`` is the number of blocks; None for that of
    the explained run, at most ten. Raise UserError for several comparisons or without suspected
    settings; TrialFailed if no block has results of A, of B and of an alignment.
    """
    if len(explained.compared) > 1:
        raise UserError(
            f"an ablation tests one comparison, but {len(explained.compared)} are selected",
            hint=f"choose one with --candidate, --test and --where: {titles(explained.compared)}",
        )
    stored, explanation = explained.stored, explained.compared[0]
    if len(stored.run.spec.workload.roles) > 1:
        raise UserError(
            f"{stored.run.spec.workload.name} runs several servers in a trial, and an ablation "
            "cannot change the settings of only one",
            hint="vary the suspected option in the experiment, such as replica.options.NAME",
        )
    candidate = _treatment(stored, explanation.b)
    refuses, given = _refuses(candidate), _given(explanation.b)
    planned = policy.alignments(explanation.likely_causes, refuses, given)
    ablated = policy.ablation_plan(
        stored,
        base=_treatment(stored, explanation.a),
        candidate=candidate,
        wanted=planned,
        blocks=blocks or min(stored.run.blocks, _MOST_BLOCKS),
        seed=random_seed(),
    )
    settings = [
        f"{explanation.candidate} with {each.name}: "
        + ", ".join(f"{name} = {value}" for name, value in {**each.settings, **each.needed}.items())
        for each in planned.alignments
    ]
    not_aligned = (f"not aligned: {clause}" for clause in planned.left_out)
    caller.on_event(Notice("\n".join([*settings, *not_aligned])))
    measured = _measure(path, ablated, caller)
    found = ablation(measured)
    if found is None:
        raise TrialFailed(
            f"no block of run {measured.run.id} has results of A, of B and of an alignment",
            hint=f"`millrace results show {measured.run.id}` shows the reasons",
        )
    return ExplainedRun(stored, (with_ablation(explanation, found),))


def _measure(path: Path, ablated: policy.AblationPlan, caller: Caller) -> StoredRun:
    with measuring(path, f"run {ablated.plan.experiment.name}", caller) as (stack, store):
        policy.refuse_imported(store, ablated.spec.run)
        new = new_run(ablated.plan, caller)
        spec = new.run.spec.replace(tested=ablated.spec)
        selection = replace(new, run=replace(new.run, spec=spec))
        try:
            execute_run(stack, store, selection, caller)
        except Interrupted as stopped:
            hint = (
                f"`millrace explain {ablated.spec.run}` uses the blocks so far; "
                "with --ablate, it starts again"
            )
            raise Interrupted(stopped.message, hint=hint) from None
        return store.load_run(selection.run.id)


def _refuses(treatment: TreatmentRecord) -> policy.Refuses:
    """Return the function that tests whether a treatment's server refuses an option."""
    server = install.find(str(treatment.resolved["server"]))
    if not isinstance(server, InstalledServer):
        return lambda _option, _value: None

    def refuses(name: str, value: str | None) -> Literal["option", "value"] | None:
        if not {name, f"{OPTION}{name}"}.isdisjoint(treatment.levels):
            return None  # a factor, or an option that the run used already
        rules = databases.get(server.family).options
        if not options.knows(rules, options.known(server), name):
            return "option"
        return "value" if options.refuses(server, name, value) else None

    return refuses


def _given(explained: SideExplanation) -> frozenset[str]:
    if explained.instance is None:
        return frozenset()
    given = (each for each in explained.instance.options if each.left_out is None)
    return frozenset(form for each in given for form in databases.option_forms(each.name))


def _treatment(stored: StoredRun, explained: SideExplanation) -> TreatmentRecord:
    return next(each for each in stored.treatments if each.levels == explained.levels)
