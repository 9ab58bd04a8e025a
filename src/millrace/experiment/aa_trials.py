"""The base once more in some blocks: what this host calls a difference where there is none.

A control is one more trial of the base of a group (A' beside A), in the same block, and enters no
verdict. At least a tenth of the blocks have one, for every group: the first is in one of the first
two blocks, and the *k*-th after it 10 k - 5 to 10 k - 1 blocks later, which of them the seed says.
So it is wherever a run stops, but in one that stops after its first block. Plans of fewer than 5
blocks have none: there, one more trial is much, and tells little.
Where pairs are measured side by side there are none either: a third trial would have nobody beside
it, and such a run begins only where a calibration has measured the base beside itself.

In block b a control of treatment t has its place in the random order by the SHA-256 of
``"{seed}:{b}:{t}:control"``, and all else keeps its own.
"""

from __future__ import annotations

from dataclasses import replace

from millrace.experiment.model import Plan, PlannedTrial, Treatment
from millrace.experiment.ordering import drawn
from millrace.experiment.plan import trial_id
from millrace.model.trials import Purpose

FEWEST_BLOCKS_WITH_CONTROLS = 5
_EVERY = 10
_PLACES = 5

_CONTROL: Purpose = "control"


def control_blocks(
    seed: int, blocks: int, *, begun: int = 0, first: int | None = None
) -> frozenset[int]:
    """The blocks (from 0) of a plan that have a control.

    A run that has ``begun`` blocks, none of them with a control, begins with them in the next two;
    ``first`` is the first one that a run has, if it has any.
    """
    if first is None:
        if blocks < FEWEST_BLOCKS_WITH_CONTROLS:
            return frozenset()
        first = begun + (begun + _choice(seed, 0, 2)) % 2
    later = (
        first + _EVERY * k - _PLACES + _choice(seed, k, _PLACES)
        for k in range(1, blocks // _EVERY + 2)
    )
    return frozenset(block for block in (first, *later) if block < blocks)


def with_controls(plan: Plan, *, begun: int = 0, first: int | None = None) -> Plan:
    """The plan with its controls, for the base of each group that compares anything; ``begun`` and
    ``first`` as of ``control_blocks``."""
    compare = plan.experiment.compare
    is_base = {each.id: each.levels[compare.factor] == compare.base for each in plan.treatments}
    if all(is_base.values()) or plan.experiment.side_by_side:
        return plan
    bases = [each for each in plan.treatments if is_base[each.id]]
    having = control_blocks(plan.seed, plan.experiment.blocks, begun=begun, first=first)
    trials = [*plan.trials, *(_control(plan, base, block) for block in having for base in bases)]
    ordered = sorted(trials, key=lambda trial: _place(plan, trial))
    placed = (replace(trial, position=at) for at, trial in enumerate(ordered))
    return replace(plan, trials=tuple(placed))


def _control(plan: Plan, base: Treatment, block: int) -> PlannedTrial:
    return PlannedTrial(trial_id(plan.digest, base, block, _CONTROL), base, block, 0, _CONTROL)


def _place(plan: Plan, trial: PlannedTrial) -> tuple[bool, int, bytes]:
    """What the trials of a plan are ordered by; those that are profiled stay in their order."""
    if trial.purpose == "profile":
        return True, trial.position, b""
    suffix = f":{_CONTROL}" if trial.purpose == _CONTROL else ""
    return False, trial.block, drawn(f"{plan.seed}:{trial.block}:{trial.treatment.id}{suffix}")


def _choice(seed: int, number: int, places: int) -> int:
    """One of so many places, the same for the same seed and number."""
    return drawn(f"{seed}:{_CONTROL}:{number}")[0] % places
