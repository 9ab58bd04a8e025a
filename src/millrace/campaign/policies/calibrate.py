"""Calibrate a host: compare the user's base with itself, and with a slowed-down copy.

This module creates the experiment and chooses each next block. The compared factor is:

    slowdown = none     A, the unchanged base
    slowdown = again    A', the same base under another name
    slowdown = cpu=4%   A slowed down; the size follows from the smallest change that the A/A blocks
                        can detect

A block contains A and one other treatment, for each group that still needs verdicts. Each group
gets the same number of verdicts; otherwise groups with quick verdicts would count too often.
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
    """A block: A and the slowdown ``level``, for the groups with these fixed factors."""

    level: str
    groups: tuple[FixedFactors, ...]


def calibration_experiment(experiment: Experiment) -> Experiment:
    """Return the experiment that compares the base with itself; UserError for too few blocks."""
    if experiment.blocks < FEWEST_BLOCKS:
        raise UserError(
            f"{experiment.source}: {counted(experiment.blocks, 'block')} cannot give a verdict; a "
            f"verdict needs at least {FEWEST_BLOCKS}",
            hint="use more blocks, such as --blocks 10",
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
    """Return the plan of block number ``block``; its first trial has ``position`` in the run."""
    plan = block_of(experiment, slowdown.FACTOR, (NONE, content.level), seed=seed, block=block)
    groups = [dict(fixed) for fixed in content.groups]

    def is_contained(levels: Mapping[str, Level]) -> bool:
        return {k: of for k, of in levels.items() if k != slowdown.FACTOR} in groups

    trials = [trial for trial in plan.trials if is_contained(trial.treatment.levels)]
    treatments = tuple(each for each in plan.treatments if is_contained(each.levels))
    return replace(plan.only(trials, after=position), treatments=treatments)


def groups_of(experiment: Experiment) -> tuple[FixedFactors, ...]:
    """Return the fixed factors of each group of a calibration experiment."""
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
    """Return the next block of a calibration; None if it is complete.

    A calibration needs ``verdicts`` A/A verdicts, the same number in each group. Then each group
    needs a verdict on an injected slowdown of ``injected_kind``: ``cpu``, ``fsync``, an option, or
    None for no injection. The size of a ``cpu`` slowdown follows from the smallest change that the
    group's verdicts can detect.
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
    """Return a group's slowdown, a started one if there is one; None if its noise is not known."""
    begun = [each.level for each in group.injected if _kind(each.level) == _kind(injected_kind)]
    if begun:
        return begun[-1]
    known = fixed_level(injected_kind)
    if known is not None or not group.detectable:
        return known
    return stop_of_size(group, found, SIZE).level


def fixed_level(injected_kind: str) -> str | None:
    """Return the level of a slowdown of fixed size; None if the size depends on noise (``cpu``)."""
    if injected_kind == FSYNC:
        return SlowFsync(_DELAY_US).level
    return None if injected_kind == CPU else injected_kind


def stop_of_size(group: GroupCalibration, found: Calibration, size: float) -> Stopped:
    """Return the CPU slowdown that causes ``size`` times the smallest detectable change.

    At least ``size`` times the margin, because verdicts ignore changes below the margin.
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
                    hint=f"`millrace results show {found.run.id}` shows the reasons; after fixing "
                    "them, start a new calibration with --new",
                )


def started_content(stored: StoredRun, block: int) -> CalibrationBlock:
    """Return the content of a started block."""
    of_block = {trial.treatment_id for trial in stored.trials if trial.block == block}
    levels = [each.levels for each in stored.treatments if each.id in of_block]
    level = next(str(of[slowdown.FACTOR]) for of in levels if of[slowdown.FACTOR] != NONE)
    return CalibrationBlock(level, _fixed_factors(levels))


ChooseBlock = Callable[[Calibration | None], CalibrationBlock | None]
"""Return the next block, given the calibration so far; None if it is complete."""


@dataclass(frozen=True)
class CalibrationReviewed(Announcement):
    """A block with ``level`` has ended; ``found`` is the calibration after it.

    The calibration needs ``verdicts`` A/A verdicts in all.
    """

    found: Calibration
    level: str
    verdicts: int


class Calibrate:
    """The policy of a calibration; ``verdicts`` is the required number of A/A verdicts."""

    def __init__(
        self, experiment: Experiment, *, seed: int, verdicts: int, choose_block: ChooseBlock
    ) -> None:
        self._experiment = experiment
        self._seed = seed
        self._verdicts = verdicts
        self._choose_block = choose_block
        self._level: str | None = None

    def next_batch(self, stored: StoredRun | None) -> Batch | End:
        """Return the unfinished block, else the next one; see ``campaign.scheduler.Policy``."""
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
