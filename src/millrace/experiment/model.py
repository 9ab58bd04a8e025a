"""The checked form of an experiment, and the plan it expands to. Plain values, no I/O.

An experiment varies *factors*. A factor is any name with levels: ``server``, ``configuration``,
and whatever the workload offers (``engine``, ``load_mode``, later a page size or a protocol).
Factors that belong to a *role* other than ``server`` carry it as a prefix: ``replica.server``,
``replica.configuration``. A treatment is one level of each factor; nothing here knows which factors
exist, so that new ones need no change of schema, ids or store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millrace.levels import Level, level_text
from millrace.model.run_spec import CampaignPart
from millrace.model.trials import Purpose
from millrace.tls import Tls

# With so few blocks, and no limit of time, there is no look before the last: earlier ones tell
# only differences far larger than the spread (millrace.stats.sequential), and an interval for one
# look is half as wide.
MOST_FIXED_BLOCKS = 5

# No comparison is decided with fewer: they say too little about their own spread.
FEWEST_BLOCKS = 3

MAX_NAME_LENGTH = 64


def short_name(name: str, suffix: str = "") -> str:
    """The name with ``suffix``, shortened before it to what a name may be."""
    return f"{name[: MAX_NAME_LENGTH - len(suffix)]}{suffix}"


@dataclass(frozen=True)
class Factor:
    """What an experiment varies.

    ``levels`` are shown in reports, in this order. ``aliases`` maps a level's name to the level it
    stands for (the same server twice under two names is an A/A experiment).
    """

    name: str
    levels: tuple[Level, ...]
    aliases: Mapping[str, Level] = field(default_factory=dict)


@dataclass(frozen=True)
class Compare:
    """Which factor is compared, and the level that is the base; the other factors are held."""

    factor: str
    base: Level


@dataclass(frozen=True)
class Experiment:
    """One experiment at one scale, fully checked; every reference in it exists.

    ``workload`` is the workload's complete definition as plain data (see millrace.workloads);
    ``configurations`` maps each configuration name used to its definition as plain data;
    ``parameters`` are the workload's parameters at this scale (``rows``, ``data_seed`` ...);
    ``published`` names the published study whose figures a report sets beside the user's own;
    ``margin`` is a fraction (0.02 is 2 %); ``seed`` is None when the user leaves it to millrace.
    ``observers`` are those that observe its trials; ``profile_blocks`` is the number of blocks
    whose trials are profiled, after all that measure. ``campaign`` is what a campaign made it for.
    ``tls`` is how sessions with attached servers
    are encrypted, by name, where it is otherwise than their addresses say.

    ``sequential`` experiments go on until each comparison is decided, with ``blocks`` at most and
    ``max_time_s`` of trials at most (None: without such a limit); others have exactly ``blocks``.
    ``side_by_side`` has base and candidate of a block measured at the same time, each on its half
    of the CPUs (see millrace.experiment.concurrent_pairs), instead of in turns.
    """

    name: str
    title: str
    scale: str
    workload: Mapping[str, Any]
    configurations: Mapping[str, Mapping[str, Any]]
    factors: tuple[Factor, ...]
    compare: Compare
    parameters: Mapping[str, Any]
    blocks: int
    margin: float
    observers: tuple[str, ...]
    profile_blocks: int
    seed: int | None
    published: str | None
    source: str
    text: str
    sequential: bool = False
    max_time_s: float | None = None
    side_by_side: bool = False
    campaign: CampaignPart = field(default_factory=CampaignPart)
    tls: Mapping[str, Tls] = field(default_factory=dict)


def nothing_compared(experiment: Experiment) -> str | None:
    """Return a note for the user where the compared factor has no level but the base."""
    compare = experiment.compare
    levels = next(each.levels for each in experiment.factors if each.name == compare.factor)
    if len(levels) > 1:
        return None
    return (
        f"nothing is compared: {compare.base} is the only level of {compare.factor}, so there will "
        f"be no verdict; add levels to {compare.factor} in [factors] of {experiment.source}, or "
        f"compare another factor ([compare] factor and base)"
    )


@dataclass(frozen=True)
class Treatment:
    """One combination of levels, one per factor. ``levels`` are as named by the user;
    ``resolved`` has aliases replaced by what they stand for. ``id`` is the same in every plan."""

    id: str
    levels: Mapping[str, Level]
    resolved: Mapping[str, Level]

    @property
    def label(self) -> str:
        return " · ".join(level_text(name, level) for name, level in self.levels.items())


@dataclass(frozen=True)
class PlannedTrial:
    """One run of one treatment: in block ``block`` (from 0), ``position`` in the whole order.
    Profiled trials are in blocks of their own, which count from 0 too; a control is one more trial
    of the base in a block. ``side`` is the half of the CPUs (0 or 1) of a trial that is measured at
    the same time as the other of its pair, which is next to it; None where it has the whole host.
    """

    id: str
    treatment: Treatment
    block: int
    position: int
    purpose: Purpose = "measure"
    side: int | None = None

    @property
    def hosts(self) -> float:
        """How much of the host it takes, and so of the time of a run: two of a pair make one."""
        return 1.0 if self.side is None else 0.5


@dataclass(frozen=True)
class Plan:
    """The ordered trials. ``digest`` identifies what is measured (not the number of blocks), so
    that an interrupted run is found again and a finished one can be given more blocks."""

    experiment: Experiment
    digest: str
    seed: int
    treatments: tuple[Treatment, ...]
    trials: tuple[PlannedTrial, ...]
