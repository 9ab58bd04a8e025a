"""Plan the calibration of a host: A/A trials of the user's base, and the base slowed down.

This module also chooses the next block.

    slowdown = none     A, the base as it is
    slowdown = again    A', the same under another name
    slowdown = cpu=4%   A slowed down, injected when the A/A blocks show the smallest detectable
                        change

A block contains A and one of the others, for each group that still needs one. A group drops out
when it has its verdicts, the same number for each group: ending with the first verdicts of all
groups would count quick ones too often.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from millrace.analysis.compare.calibration import Calibration, GroupCalibration, calibration
from millrace.campaign.blocks import n_blocks, open_block_number
from millrace.campaign.scheduler import Batch, End
from millrace.errors import TrialFailed, UserError
from millrace.experiment import slowdown
from millrace.experiment.levels import resolved_level
from millrace.experiment.model import Compare, Experiment, Factor, Plan, short_name
from millrace.experiment.plan import block_of, digest, expand
from millrace.experiment.slowdown import AGAIN, CPU, FSYNC, NONE, SlowFsync, Stopped
from millrace.levels import Level
from millrace.model.events import Announcement, Emitted
from millrace.model.run_spec import FEWEST_BLOCKS, Calibrates, CampaignPart
from millrace.quantities import counted
from millrace.store.records import StoredRun

SUFFIX = "-calibration"
SIZE = 2.0
"""The size of an injected slowdown, in smallest detectable changes.

A slowdown of size 1 would be missed in one of five calibrations, one of size 1.5 in one of thirty.
"""

_MOST_STOPPED = 0.5
_DELAY_US = 1000
_MOST_FAILED = 4

FixedFactors = Mapping[str, Level]


@dataclass(frozen=True)
class CalibrationBlock:
    """The next block: A and ``level``, of the groups with these fixed factors."""

    level: str
    groups: tuple[FixedFactors, ...]


def calibration_experiment(experiment: Experiment) -> Experiment:
    """Return the experiment that compares another's base with itself; UserError for few blocks."""
    if experiment.blocks < FEWEST_BLOCKS:
        raise UserError(
            f"{experiment.source}: {counted(experiment.blocks, 'block')} cannot decide anything, "
            "so no verdict can be false",
            hint="give a verdict more of them, as in --blocks 10",
        )
    factor, base = experiment.compare.factor, experiment.compare.base
    asked = Calibrates(
        digest=digest(experiment),
        name=experiment.name,
        factor=factor,
        base=base,
        blocks=experiment.blocks,
        margin=experiment.margin,
    )
    fixed = [_held_at(each, base) if each.name == factor else each for each in experiment.factors]
    return replace(
        experiment,
        name=short_name(experiment.name, SUFFIX),
        title=f"calibration: {experiment.title}",
        factors=(*fixed, Factor(slowdown.FACTOR, (NONE, AGAIN), {AGAIN: NONE})),
        compare=Compare(slowdown.FACTOR, NONE),
        profile_blocks=0,
        counted_starts=0,
        published=None,
        sequential=False,
        max_time_s=None,
        campaign=CampaignPart(calibrates=asked),
    )


def _held_at(factor: Factor, base: Level) -> Factor:
    resolved = resolved_level(factor, base)
    return Factor(factor.name, (base,), {} if resolved == base else {str(base): resolved})


def block_plan(
    experiment: Experiment, content: CalibrationBlock, *, seed: int, block: int, position: int
) -> Plan:
    """Return the plan of block ``block``, whose first trial is at ``position`` of the run."""
    plan = block_of(experiment, slowdown.FACTOR, (NONE, content.level), seed=seed, block=block)
    groups = [dict(fixed) for fixed in content.groups]

    def is_contained(levels: Mapping[str, Level]) -> bool:
        return {k: of for k, of in levels.items() if k != slowdown.FACTOR} in groups

    trials = [trial for trial in plan.trials if is_contained(trial.treatment.levels)]
    treatments = tuple(each for each in plan.treatments if is_contained(each.levels))
    return replace(plan.only(trials, after=position), treatments=treatments)


def groups_of(experiment: Experiment) -> tuple[FixedFactors, ...]:
    """Return the fixed factors of each group of an experiment that calibrates."""
    plan = expand(replace(experiment, blocks=1), seed=0)
    return _fixed_factors(each.levels for each in plan.treatments)


def _fixed_factors(of_treatments: Iterable[Mapping[str, Level]]) -> tuple[FixedFactors, ...]:
    """Return the fixed factors of the treatments without a slowdown."""
    return tuple(
        {name: of for name, of in levels.items() if name != slowdown.FACTOR}
        for levels in of_treatments
        if levels[slowdown.FACTOR] == NONE
    )


def next_block(
    found: Calibration | None,
    groups: Sequence[FixedFactors],
    *,
    verdicts: int,
    injected_kind: str | None,
) -> CalibrationBlock | None:
    """Return the next block of a calibration; None where it is complete.

    It needs ``verdicts`` A/A verdicts, the same number in each group, and then a verdict on an
    injected slowdown in each: ``injected_kind`` (``cpu``, ``fsync``, an option, None for none),
    where possible of a size that follows from the smallest change that the group's verdicts detect.
    """
    if found is None:
        return CalibrationBlock(AGAIN, tuple(groups))
    _refuse_failing(found)
    verdicts_each = math.ceil(verdicts / len(groups))
    done = {_key(group.fixed_factors): len(group.verdicts) for group in found.groups}
    lacking = [fixed for fixed in groups if done.get(_key(fixed), 0) < verdicts_each]
    if lacking:
        return CalibrationBlock(AGAIN, tuple(lacking))
    if injected_kind is None:
        return None
    for group in found.groups:
        level = injected_level(group, found, injected_kind)
        has_verdict = any(each.verdicts for each in group.injected if each.level == level)
        if level is not None and not has_verdict:
            return CalibrationBlock(level, (group.fixed_factors,))
    return None


def injected_level(group: GroupCalibration, found: Calibration, injected_kind: str) -> str | None:
    """Return the slowdown of a group, a started one first; None where its noise is not known."""
    begun = [each.level for each in group.injected if _kind(each.level) == _kind(injected_kind)]
    if begun:
        return begun[-1]
    known = fixed_level(injected_kind)
    if known is not None or not group.detectable:
        return known
    return stop_of_size(group, found, SIZE).level


def fixed_level(injected_kind: str) -> str | None:
    """Return the level of a slowdown that does not depend on noise; None for one that does."""
    if injected_kind == FSYNC:
        return SlowFsync(_DELAY_US).level
    return None if injected_kind == CPU else injected_kind


def stop_of_size(group: GroupCalibration, found: Calibration, size: float) -> Stopped:
    """Return the stop that causes ``size`` times the smallest change detected in all blocks.

    The change is at least the margin, because verdicts ignore smaller ones.
    """
    asked = found.target
    change = size * max(group.detectable[asked.blocks], asked.margin)
    return Stopped(min(1 - 1 / (1 + change), _MOST_STOPPED))


def _kind(level: str) -> str:
    name = level.partition("=")[0]
    return name if name in (CPU, FSYNC) else level


def _key(fixed: FixedFactors) -> frozenset[tuple[str, Level]]:
    return frozenset(fixed.items())


def _refuse_failing(found: Calibration) -> None:
    for group in found.groups:
        name = group.label or "the base"
        finished = group.noise.n_blocks if group.noise is not None else len(group.under_way)
        counts = [(name, group.failed, finished)]
        for each in group.injected:
            n_pairs = each.estimate.n_pairs if each.estimate else 0
            counts.append((f"{name} with {each.level}", each.failed, n_pairs))
        for what, failed, done in counts:
            if failed >= _MOST_FAILED and failed > done:
                raise TrialFailed(
                    f"{counted(failed, 'trial')} of {what} failed",
                    hint=f"`millrace results show {found.run.id}` has each reason; when it is "
                    "mended, --new begins anew",
                )


def started_content(stored: StoredRun, block: int) -> CalibrationBlock:
    """Return the content of a started block."""
    of_block = {trial.treatment_id for trial in stored.trials if trial.block == block}
    levels = [each.levels for each in stored.treatments if each.id in of_block]
    level = next(str(of[slowdown.FACTOR]) for of in levels if of[slowdown.FACTOR] != NONE)
    return CalibrationBlock(level, _fixed_factors(levels))


ChooseBlock = Callable[[Calibration | None], CalibrationBlock | None]
"""Return the next block from the calibration so far; None where nothing is missing."""


@dataclass(frozen=True)
class CalibrationReviewed(Announcement):
    """A block with ``level`` ended; ``found``, including it, needs ``verdicts`` A/A verdicts."""

    found: Calibration
    level: str
    verdicts: int


class Calibrate:
    """The policy that measures what ``choose_block`` returns, for ``verdicts`` A/A verdicts."""

    def __init__(
        self, experiment: Experiment, *, seed: int, verdicts: int, choose_block: ChooseBlock
    ) -> None:
        self._experiment = experiment
        self._seed = seed
        self._verdicts = verdicts
        self._choose_block = choose_block
        self._level: str | None = None

    def next_batch(self, stored: StoredRun | None) -> Batch | End:
        """Return the open block, else the next one; see ``campaign.scheduler.Policy``."""
        found = None if stored is None else calibration(stored)
        events: tuple[Emitted, ...] = ()
        if found is not None and self._level is not None:
            events = (CalibrationReviewed(found, self._level, self._verdicts),)
        number = open_block_number(stored)
        resumes = number is not None
        try:
            if stored is not None and number is not None:
                content: CalibrationBlock | None = started_content(stored, number)
            else:
                number, content = n_blocks(stored), self._choose_block(found)
        except TrialFailed as failing:
            return End("failing", events, failing)
        if content is None:
            return End("done", events)
        assert number is not None
        self._level = content.level
        position = 0 if stored is None else len(stored.trials)
        plan = block_plan(
            self._experiment, content, seed=self._seed, block=number, position=position
        )
        return Batch(plan, max(number + 1, n_blocks(stored)), resumes=resumes, events=events)
