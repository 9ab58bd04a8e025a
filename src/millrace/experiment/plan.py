"""Expand a checked experiment to its trials, in randomised complete blocks.

Identity. An id is the first 12 hex digits of the SHA-256 of canonical JSON. It depends only on the
identified content, so it is the same in every plan: an interrupted run finds its trials again,
added blocks keep the finished trials, and a treatment is recognised in another run. The inputs are:

* the digest: name and scale of the experiment, the workload's definition, its parameters, and
  whether groups are measured in slices if these are valid;
* a treatment: its levels (with the workload's defaults for factors that are not varied), the levels
  with aliases replaced, and the definitions of its configurations;
* a trial: digest, treatment, block, and its purpose unless this is ``measure``.

Order. Each block has each treatment once, group by group (see millrace.experiment.groups). The
random order depends only on the seed and the block, so that added blocks do not change earlier
ones. Blocks of profiled trials come after all measured ones and use the seed ``"{seed}:profile"``;
blocks of counted trials come last, with ``"{seed}:count"``. For rounds, see
millrace.experiment.rounds. Profiled loads have no rounds, because a short load is repeated until it
has enough samples.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from millrace.errors import Diagnostic, ValidationError
from millrace.experiment import rounds
from millrace.experiment.groups import group_place, groups_of, trial_place
from millrace.experiment.levels import CONFIGURATION, resolved_level
from millrace.experiment.model import Experiment, Plan, PlannedTrial, Treatment
from millrace.levels import Level, Values, without_clients
from millrace.model.documents import short_digest
from millrace.model.run_spec import layer_names
from millrace.model.trials import Purpose, kind_of_block
from millrace.workloads.defaults import in_slices, interleaved
from millrace.workloads.settings import ClientSettings

_FORMAT = 1
# For trials that millrace shortens.
LEAST_TIME_S, LEAST_WARMUP_S = 2.0, 0.5

_MEASURE: Purpose = "measure"
_PROFILE: Purpose = "profile"
_COUNT: Purpose = "count"


def expand(experiment: Experiment, *, seed: int) -> Plan:
    """Return the plan; its order depends on the seed. Raise ValidationError for a wrong design."""
    treatments = _treatments(experiment)
    _refuse_endless(experiment, treatments)
    if experiment.requires_slices:
        rounds.refuse_unfit(experiment, (chosen(experiment, each) for each in treatments))
    identity = digest(experiment)
    groups = [
        _Group(tuple(each), in_slices=_is_in_slices(experiment, each))
        for each in groups_of(treatments, experiment.compared_factors)
    ]
    counted_treatments = distinct_but_for_clients(treatments)
    trials: list[PlannedTrial] = []
    for purpose, number in (
        (_MEASURE, experiment.blocks),
        (_PROFILE, experiment.profile_blocks),
        (_COUNT, experiment.counted_starts),
    ):
        order_seed = str(seed) if purpose == _MEASURE else f"{seed}:{purpose}"
        for block in range(number):
            order = _block_order(experiment, groups, purpose=purpose, seed=order_seed, block=block)
            for treatment, slot in order:
                if purpose != _COUNT or treatment in counted_treatments:
                    name = trial_id(identity, treatment, block, purpose)
                    trial = PlannedTrial(name, treatment, block, len(trials), purpose, slot)
                    trials.append(trial)
    return Plan(experiment, identity, seed, treatments, tuple(trials))


def _refuse_endless(experiment: Experiment, treatments: Iterable[Treatment]) -> None:
    """Raise ValidationError if a test with background clients ends by operations."""
    tests = experiment.workload.get("tests", {}).values()
    if not any("background_clients" in test for test in tests):
        return
    workload = experiment.checked_workload
    for treatment in treatments:
        values = workload.values(chosen(experiment, treatment))
        if values["operations"] and workload.background_client_count(values):
            message = f"the test {values['test']} has background clients, so it must end by time"
            found = Diagnostic("parameters.operations", message, "time_s instead of operations")
            raise ValidationError(experiment.source, [found])


def is_in_open_loop(experiment: Experiment) -> bool:
    """Return whether the clients of any treatment send at a fixed rate."""
    workload, treatments = experiment.checked_workload, _treatments(experiment)
    return workload.drives and any(
        workload.client_settings(chosen(experiment, each)).rate for each in treatments
    )


def client_settings(plan: Plan) -> list[ClientSettings]:
    """Return the settings of the clients of each treatment of a plan."""
    client_settings_of = plan.experiment.checked_workload.client_settings
    return [client_settings_of(chosen(plan.experiment, each)) for each in plan.treatments]


def with_slices(experiment: Experiment) -> Experiment:
    """Return the experiment with slices if they are valid for a group; else the experiment."""
    sliced = replace(experiment, slices=True, workload=in_slices(experiment.workload))
    groups = groups_of(_treatments(experiment), experiment.compared_factors)
    return sliced if any(_is_in_slices(sliced, each) for each in groups) else experiment


def without_slices(experiment: Experiment) -> Experiment:
    """Return the experiment with interleaved trials instead of slices."""
    workload = interleaved(experiment.workload)
    return replace(experiment, slices=False, requires_slices=False, workload=workload)


def distinct_but_for_clients(treatments: Iterable[Treatment]) -> tuple[Treatment, ...]:
    """Return the treatments without those that differ only in the number of clients."""
    first: dict[tuple[tuple[str, Level], ...], Treatment] = {}
    for treatment in treatments:
        first.setdefault(tuple(without_clients(treatment.levels).items()), treatment)
    return tuple(first.values())


def block_of(
    experiment: Experiment, factor: str, levels: tuple[Level, ...], *, seed: int, block: int
) -> Plan:
    """Return the plan of one block with these levels of a factor; of counted trials, if any."""
    factors = tuple(
        replace(each, levels=levels) if each.name == factor else each for each in experiment.factors
    )
    counted = block + 1 if experiment.counted_starts else 0
    of_block = replace(experiment, factors=factors, blocks=block + 1, counted_starts=counted)
    plan, kind = expand(of_block, seed=seed), _COUNT if counted else _MEASURE
    trials = (each for each in plan.trials if each.block == block)
    return replace(plan, trials=tuple(t for t in trials if kind_of_block(t.purpose) == kind))


def seed_of(experiment: Experiment) -> int:
    """Return the seed of the experiment, or a random one if it has none."""
    return random_seed() if experiment.seed is None else experiment.seed


def random_seed() -> int:
    """Return a random seed."""
    return secrets.randbelow(1 << 31)


def digest(experiment: Experiment) -> str:
    """Return the digest of an experiment, which does not depend on its treatments.

    It is the same for every seed, order and number of blocks. Runs with this digest may be resumed;
    millrace.campaign.resume also compares their levels.
    """
    return short_digest(
        {
            "format": _FORMAT,
            "name": experiment.name,
            "scale": experiment.scale,
            "workload": experiment.workload,
            "parameters": experiment.parameters,
            **({"slices": True} if experiment.slices else {}),
        }
    )


def chosen(experiment: Experiment, treatment: Treatment) -> dict[str, Level]:
    """Return the values of a treatment's factors and parameters, without a test's own defaults."""
    offered = experiment.workload.get("factors", {})
    levels = {name: treatment.resolved[name] for name in treatment.levels if name in offered}
    return {**experiment.parameters, **levels}


def profiled_values(experiment: Experiment, values: Values) -> Values:
    """Return a treatment's factors and parameters for its profiled trials, which may be shorter.

    A trial is not shortened if it ends after a number of operations, or if an earlier test of a
    sequence has changed its tables.
    """
    if experiment.profile_s is None or not experiment.checked_workload.drives:
        return values
    workload = experiment.checked_workload
    settings = workload.client_settings(values)
    if settings.operations or workload.prior_tests(workload.values(values)):
        return values
    time_s = min(settings.time_s, experiment.profile_s)
    least_s = max(LEAST_WARMUP_S, settings.warmup_s * time_s / settings.time_s)
    warmup_s = min(settings.warmup_s, least_s)
    return {**values, "time_s": time_s, "warmup_s": warmup_s}


def trial_id(identity: str, treatment: Treatment, block: int, purpose: Purpose) -> str:
    """Return the id of a trial; ``identity`` is the digest of its plan."""
    others = [] if purpose == _MEASURE else [purpose]
    return short_digest([identity, treatment.id, block, *others])


@dataclass(frozen=True)
class _Group:
    treatments: tuple[Treatment, ...]
    in_slices: bool


def _is_in_slices(experiment: Experiment, group: Iterable[Treatment]) -> bool:
    if experiment.requires_slices:
        return True  # checked already
    values = (chosen(experiment, each) for each in group)
    return experiment.slices and rounds.is_valid(experiment, values)


def _treatments(experiment: Experiment) -> tuple[Treatment, ...]:
    levels = product(*(factor.levels for factor in experiment.factors))
    every = (_treatment(experiment, each) for each in levels)
    measured = experiment.combinations
    return tuple(each for each in every if not measured or each.levels in measured)


def _treatment(experiment: Experiment, levels: tuple[Level, ...]) -> Treatment:
    offered = experiment.workload.get("factors", {})
    defaults = {name: factor["default"] for name, factor in offered.items()}
    pairs = list(zip(experiment.factors, levels, strict=True))
    named = {factor.name: level for factor, level in pairs}
    resolved = defaults | {f.name: resolved_level(f, level) for f, level in pairs}
    identity = {
        "levels": defaults | named,
        "resolved": resolved,
        "configurations": _definitions(experiment, resolved),
    }
    return Treatment(short_digest(identity), named, resolved)


def _definitions(experiment: Experiment, resolved: Mapping[str, Level]) -> dict[str, list[object]]:
    known = experiment.configurations
    return {
        factor: [known[name].to_json() for name in layer_names(known, str(level)) if name]
        for factor, level in resolved.items()
        if factor.rpartition(".")[2] == CONFIGURATION
    }


def _block_order(
    experiment: Experiment, groups: Sequence[_Group], *, purpose: Purpose, seed: str, block: int
) -> Iterator[tuple[Treatment, int | None]]:
    """Yield the treatments of a block in order, each with its slot in a round, or None."""
    sliced = (_MEASURE, _PROFILE) if experiment.workload.get("tests") else (_MEASURE,)

    def place(group: _Group) -> bytes:
        return group_place(group.treatments[0], experiment.compared_factors, seed, block)

    for group in sorted(groups, key=place):
        if group.in_slices and purpose in sliced:
            yield from rounds.slots(group.treatments, seed, block)
        else:
            order = sorted(group.treatments, key=lambda of: trial_place(of.id, seed, block))
            yield from ((treatment, None) for treatment in order)
