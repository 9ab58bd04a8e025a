"""Define the checked form of an experiment, and the plan it expands to.

Plain values, no I/O.

An experiment varies *factors*. A factor is any name with levels: ``server``, ``configuration``, and
the factors of the workload (``engine``, ``load_mode``, later a page size or a protocol). Factors
that belong to a *role* other than ``server`` carry it as a prefix: ``replica.server``,
``replica.configuration``. A treatment is one level of each factor. This module does not know the
existing factors, so that new ones need no change of schema, ids or store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from millrace.levels import Level, Values, level_text
from millrace.model.run_spec import CampaignPart, ConfigurationDefinition
from millrace.model.trials import Purpose
from millrace.tls import Tls
from millrace.workloads import Workload, parse_workload
from millrace.workloads.schema_factors import Definition

# With this number of blocks or fewer and no time limit, only the last look matters. Earlier looks
# detect only differences far larger than the spread (millrace.stats.sequential), and an interval
# for one look is half as wide.
MOST_FIXED_BLOCKS = 5

# Starts of a server differ in what they execute, and their spread makes the interval.
COUNTED_STARTS = 4

MAX_NAME_LENGTH = 64
MOST_TREATMENTS = 10_000
MOST_TRIALS = 200_000


def short_name(name: str, suffix: str = "") -> str:
    """Return the name with ``suffix``, the name shortened to the longest permitted length."""
    return f"{name[: MAX_NAME_LENGTH - len(suffix)]}{suffix}"


def sort_key(text: str) -> bytes:
    """Return the place of a text in a random order that is the same every time."""
    return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True)
class Factor:
    """A factor: a name and its levels in the order of reports.

    ``aliases`` maps a level's name to the level it stands for (the same server twice under two
    names is an A/A experiment).
    """

    name: str
    levels: tuple[Level, ...]
    aliases: Mapping[str, Level] = field(default_factory=dict)


@dataclass(frozen=True)
class Compare:
    """The compared factor and its base level; the other factors are fixed."""

    factor: str
    base: Level


@dataclass(frozen=True)
class Experiment:
    """One experiment at one scale, fully checked; every reference in it exists.

    ``workload`` is the workload's complete definition as plain data (see millrace.workloads);
    ``configurations`` maps each configuration name used to its definition;
    ``parameters`` are the workload's parameters at this scale (``rows``, ``data_seed`` ...);
    ``published`` names the published study whose figures a report compares with the user's own;
    ``margin`` is a fraction (0.02 is 2 %); ``seed`` is None when the user leaves it to millrace.
    ``collectors`` sample its trials; ``profile_blocks`` is the number of blocks whose trials are
    profiled, after all that measure, ``counted_starts`` the number of trials in which each
    treatment's instructions are counted, at the very end. With ``profiles_by_default``, the user
    left the number of profiled blocks to millrace (see millrace.experiment.budget), whose
    clients are driven for at most ``profile_s`` (None: as long as those that measure). ``campaign``
    is the purpose of an experiment that a campaign created. ``tls`` is the encryption of sessions
    with attached servers, by name, where it differs from their addresses.

    ``sequential`` experiments continue until each comparison is decided, with ``blocks`` at most
    and ``max_time_s`` of trials at most (None: no limit); others have exactly ``blocks``. With
    ``slices``, the trials of a group and block are a round, wherever that measures what it should:
    their servers take turns every few milliseconds (see millrace.experiment.rounds). An experiment
    that ``requires_slices`` is refused where that is not so. ``slices_if_cached`` is true
    where ``cache_mode = "cached"`` alone is missing for them.

    ``left_out_tests`` are tests of the file that do not fit into its limit of time.
    ``combinations`` are the levels of the treatments that are measured, where these are not all
    combinations of the factors' levels. An ablation has them: its base, its candidate, and the
    candidate with some settings of the base. They are one group, whatever factors they differ in.
    """

    name: str
    title: str
    scale: str
    workload: Definition
    configurations: Mapping[str, ConfigurationDefinition]
    factors: tuple[Factor, ...]
    compare: Compare
    parameters: Values
    blocks: int
    margin: float
    collectors: tuple[str, ...]
    profile_blocks: int
    seed: int | None
    published: str | None
    source: str
    text: str
    sequential: bool = False
    max_time_s: float | None = None
    slices: bool = False
    requires_slices: bool = False
    slices_if_cached: bool = False
    combinations: tuple[Mapping[str, Level], ...] = ()
    left_out_tests: tuple[str, ...] = ()
    counted_starts: int = 0
    profiles_by_default: bool = False
    profile_s: float | None = None
    campaign: CampaignPart = field(default_factory=CampaignPart)
    tls: Mapping[str, Tls] = field(default_factory=dict)

    @cached_property
    def checked_workload(self) -> Workload:
        """The workload's definition in its typed form."""
        return parse_workload(self.workload)

    @property
    def treatments_at_once(self) -> int:
        """The number of treatments whose servers are on the host at the same time, at most."""
        if not self.slices:
            return 1
        if self.combinations:
            return len(self.combinations)
        return next(len(each.levels) for each in self.factors if each.name == self.compare.factor)

    @property
    def compared_factors(self) -> frozenset[str]:
        """The factors in which treatments of one group, whose trials are neighbours, may differ."""
        if self.combinations:
            return frozenset(each.name for each in self.factors)
        return frozenset((self.compare.factor,))


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


def slices_possible(experiment: Experiment) -> str | None:
    """Return a note for the user where `cache_mode = "cached"` alone is missing for slices."""
    if not experiment.slices_if_cached:
        return None
    return (
        "trials are interleaved. If the tables fit into the buffer pools of all compared servers "
        'at once, `cache_mode = "cached"` in [parameters] lets servers take turns in slices, with '
        "far less noise, wherever docs/design.md allows them; --interleaved keeps whole trials, "
        "without this note"
    )


@dataclass(frozen=True)
class Treatment:
    """One level per factor, as named and ``resolved``; ``id`` is the same in every plan."""

    id: str
    levels: Mapping[str, Level]
    resolved: Mapping[str, Level]

    @property
    def label(self) -> str:
        return " · ".join(level_text(name, level) for name, level in self.levels.items())


@dataclass(frozen=True)
class PlannedTrial:
    """A planned run of one treatment.

    ``block`` counts from 0; ``position`` is the place in the whole order. Profiled and counted
    trials are in blocks of their own, which count from 0 too. An ``aa`` trial is one
    more trial of the base in a block. ``slot`` is the place of a trial in its round of slices,
    whose other trials are next to it; None where it has none.
    """

    id: str
    treatment: Treatment
    block: int
    position: int
    purpose: Purpose = "measure"
    slot: int | None = None


@dataclass(frozen=True)
class Plan:
    """The ordered trials; ``digest`` identifies what is measured, not the number of blocks."""

    experiment: Experiment
    digest: str
    seed: int
    treatments: tuple[Treatment, ...]
    trials: tuple[PlannedTrial, ...]

    def share_of_time(self, trial: PlannedTrial) -> float:
        """Return a trial's share of the time until it ends: those of a round end together."""
        return 1.0 if trial.slot is None else 1 / self.experiment.treatments_at_once

    def only(self, trials: Iterable[PlannedTrial], *, after: int = 0) -> Plan:
        """Return the plan with these trials alone, at the positions from ``after`` on."""
        placed = (replace(trial, position=after + at) for at, trial in enumerate(trials))
        return replace(self, trials=tuple(placed))
