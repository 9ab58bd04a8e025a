"""Add A/A trials: one more trial of the base in some blocks.

An A/A trial is a second trial of a group's base (A' next to A) in the same block. It shows the
differences that this host produces between equal treatments, and does not affect verdicts. Its
purpose is ``aa``, in the store too.

At least a tenth of the blocks have A/A trials, for every group: the first is in one of the first
two blocks, and the *k*-th after it 10 k - 5 to 10 k - 1 blocks later, chosen by the seed. This
share holds wherever a run stops, except after its first block. Plans of fewer than 5 blocks have no
A/A trials: an additional trial would cost much and show little.

Within a block, the A/A trial of treatment t is placed in the random order of its group like a
treatment with the id ``"{t}:control"``; the order of the other trials does not change. In a round,
the same key chooses its slot; the trials in this slot and later ones move by one slot.
"""

from collections.abc import Sequence
from dataclasses import replace

from millrace.experiment.groups import fixed_factors, group_place, trial_place
from millrace.experiment.model import Plan, PlannedTrial, Treatment, sort_key
from millrace.experiment.plan import trial_id
from millrace.experiment.rounds import MOST_SLOTS
from millrace.model.trials import Purpose, is_in_measured_block

FEWEST_BLOCKS_WITH_AA_TRIALS = 5
_EVERY = 10
_PLACES = 5

_AA: Purpose = "aa"
_SALT = "control"  # of the random choices; changing it would change the order of every plan


def aa_blocks(
    seed: int, blocks: int, *, begun: int = 0, first: int | None = None
) -> frozenset[int]:
    """Return the numbers (from 0) of the blocks that have A/A trials.

    ``first`` is the first block of a run that already has an A/A trial, if any. Without it, the
    first A/A trial is in one of the two blocks after the ``begun`` blocks.
    """
    if first is None:
        if blocks < FEWEST_BLOCKS_WITH_AA_TRIALS:
            return frozenset()
        first = begun + (begun + _choice(seed, 0, 2)) % 2
    numbers = range(1, blocks // _EVERY + 2)
    later = (first + _EVERY * k - _PLACES + _choice(seed, k, _PLACES) for k in numbers)
    return frozenset(block for block in (first, *later) if block < blocks)


def with_aa_trials(plan: Plan, *, begun: int = 0, first: int | None = None) -> Plan:
    """Return the plan with A/A trials of each group's base; see ``aa_blocks``."""
    compare = plan.experiment.compare
    is_base = {each.id: each.levels[compare.factor] == compare.base for each in plan.treatments}
    if all(is_base.values()):
        return plan
    bases = [each for each in plan.treatments if is_base[each.id]]
    having = aa_blocks(plan.seed, plan.experiment.blocks, begun=begun, first=first)
    trials = list(plan.trials)
    for block in having:
        for base in bases:
            trials = _with_aa_trial(trials, plan, base, block)
    return plan.only(sorted(trials, key=lambda trial: _place(plan, trial)))


def _with_aa_trial(
    trials: Sequence[PlannedTrial], plan: Plan, base: Treatment, block: int
) -> list[PlannedTrial]:
    """Return the trials with an A/A trial of the base in a block, unless its round is full."""
    compared = plan.experiment.compared_factors
    aa_trial = PlannedTrial(trial_id(plan.digest, base, block, _AA), base, block, 0, _AA)
    sliced = (t for t in trials if t.slot is not None and is_in_measured_block(t.purpose))
    of_block = (each for each in sliced if each.block == block)
    fixed = fixed_factors(base, compared)
    in_round = {t.id for t in of_block if fixed_factors(t.treatment, compared) == fixed}
    if not in_round:
        return [*trials, aa_trial]
    if len(in_round) == MOST_SLOTS:
        return list(trials)
    slot = _place_in_group(plan, aa_trial)[0] % (len(in_round) + 1)
    moved = (
        replace(each, slot=each.slot + 1)
        if each.id in in_round and each.slot is not None and each.slot >= slot
        else each
        for each in trials
    )
    return [*moved, replace(aa_trial, slot=slot)]


def _place(plan: Plan, trial: PlannedTrial) -> tuple[bool, int, bytes, bytes]:
    """Return the sort key of a plan's trial; profiled and counted trials keep their order."""
    if not is_in_measured_block(trial.purpose):
        return True, trial.position, b"", b""
    compared = plan.experiment.compared_factors
    of_group = group_place(trial.treatment, compared, str(plan.seed), trial.block)
    in_group = _place_in_group(plan, trial) if trial.slot is None else bytes([trial.slot])
    return False, trial.block, of_group, in_group


def _place_in_group(plan: Plan, trial: PlannedTrial) -> bytes:
    suffix = f":{_SALT}" if trial.purpose == _AA else ""
    return trial_place(f"{trial.treatment.id}{suffix}", str(plan.seed), trial.block)


def _choice(seed: int, number: int, places: int) -> int:
    return sort_key(f"{seed}:{_SALT}:{number}")[0] % places
