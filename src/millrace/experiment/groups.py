"""Order the comparison groups of a block, and the interleaved trials of a group.

The trials of a group follow each other directly, because the host's speed drifts with time. In
block b the groups of a plan are sorted by the SHA-256 of ``"{seed}:{b}:{fixed factors}:group"``,
with the fixed factors as canonical JSON.

An earlier trial of a group may differ systematically from a later one (page cache, idle host).
Therefore each second block has the reversed order of the block before, so that each treatment runs
once before and once after each other treatment. In block b the trials are sorted by the SHA-256 of
``"{seed}:{b // 2}:{treatment id}"``, in reverse if b is odd.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator

from millrace.experiment.model import PlannedTrial, Treatment, sort_key
from millrace.levels import Level
from millrace.model.documents import canonical
from millrace.model.trials import kind_of_block

FixedFactors = frozenset[tuple[str, Level]]


def fixed_factors(treatment: Treatment, compared: Collection[str]) -> FixedFactors:
    """Return the fixed factors of a treatment: the levels of all factors that are not compared."""
    return frozenset(each for each in treatment.levels.items() if each[0] not in compared)


def groups_of(treatments: Iterable[Treatment], compared: Collection[str]) -> list[list[Treatment]]:
    """Return the groups of treatments that differ only in the compared factors."""
    groups: dict[FixedFactors, list[Treatment]] = {}
    for treatment in treatments:
        groups.setdefault(fixed_factors(treatment, compared), []).append(treatment)
    return list(groups.values())


def group_place(treatment: Treatment, compared: Collection[str], seed: str, block: int) -> bytes:
    """Return the sort key of a treatment's group in a block."""
    written = canonical(dict(fixed_factors(treatment, compared)))
    return sort_key(f"{seed}:{block}:{written}:group")


def trial_place(identity: str, seed: str, block: int) -> bytes:
    """Return the sort key of an interleaved trial in its group, by its treatment's id."""
    key = sort_key(f"{seed}:{block // 2}:{identity}")
    return bytes(255 - byte for byte in key) if block % 2 else key


def measured_together(
    trials: Iterable[PlannedTrial], compared: Collection[str]
) -> Iterator[tuple[PlannedTrial, ...]]:
    """Yield the trials of a plan, each alone, or together with the trials of its round."""

    def key(trial: PlannedTrial) -> object:
        if trial.slot is None:
            return trial.id
        return kind_of_block(trial.purpose), trial.block, fixed_factors(trial.treatment, compared)

    for _, together in itertools.groupby(trials, key):
        yield tuple(together)
