"""Define the checked form of an experiment and its plan: plain values, no I/O.

An experiment varies *factors*. A factor has a name and levels: ``server``, ``configuration``, and
the factors of the workload, such as ``engine`` and ``load_mode``. Factors of a *role* other than
``server`` have the role as a prefix: ``replica.server``, ``replica.configuration``. A treatment is
one level of each factor. This module has no list of factors: new factors need no change of schema,
ids or store.
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

# A run with at most this number of blocks and no time limit is analysed once, at its end. Earlier
# analyses would detect only differences far larger than the spread (millrace.stats.sequential), and
# an interval for a single analysis is half as wide.
MOST_FIXED_BLOCKS = 5

# Several starts, because their spread gives the confidence interval.
COUNTED_STARTS = 4

MAX_NAME_LENGTH = 64
MOST_TREATMENTS = 10_000
MOST_TRIALS = 200_000


def short_name(name: str, suffix: str = "") -> str:
    """Return the name with ``suffix``; the name is shortened so that both fit MAX_NAME_LENGTH."""
    return f"{name[: MAX_NAME_LENGTH - len(suffix)]}{suffix}"


def sort_key(text: str) -> bytes:
    """Return a sort key for a text: a pseudo-random order that is always the same."""
    return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True)
class Factor:
    """A factor: a name and its levels in the order of reports.

    ``aliases`` maps a level's name to the level that it stands for; an A/A experiment has the same
    server under two names.
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
    """An experiment at one scale, fully checked: everything that it refers to exists.

    ``workload``: the complete definition as plain data (see millrace.workloads).
    ``configurations``: the definition of each configuration used, by name.
    ``parameters``: the workload's parameters at this scale (``rows``, ``data_seed`` ...).
    ``published``: the published study that a report compares with the user's results.
    ``margin``: a fraction (0.02 is 2 %).
    ``seed``: None if millrace chooses it.
    ``collectors``: the collectors that sample trials.
    ``sequential``: the run ends when each comparison has its verdict, after at most ``blocks``
    blocks and ``max_time_s`` of trials (None: no limit). Other runs have exactly ``blocks``.
    ``slices``: the trials of a group in a block are a round, in which the servers take turns every
    few milliseconds (see millrace.experiment.rounds); groups without valid slices are interleaved.
    ``requires_slices``: refuse the experiment if slices are not valid for it.
    ``slices_if_cached``: slices would be valid with ``cache_mode = "cached"``.
    ``profile_blocks``: the number of profiled blocks, after all measured ones.
    ``profiles_by_default``: millrace chooses that number (see millrace.experiment.budget).
    ``profile_s``: the longest time of clients in profiled trials; None: as in measured trials.
    ``counted_starts``: the number of trials that count a treatment's instructions, at the end.
    ``left_out_tests``: tests of the file that do not fit into the time limit.
    ``campaign``: the purpose of an experiment that a campaign created.
    ``tls``: by attached server, the TLS settings that replace those of its address.
    ``combinations``: the levels of the measured treatments, if these are not all combinations of
    levels. An ablation measures its base, its candidate, and the candidate with some settings of
    the base. These treatments are one group, whichever factors they differ in.
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
        """The largest number of treatments whose servers run at the same time."""
        if not self.slices:
            return 1
        if self.combinations:
            return len(self.combinations)
        return next(len(each.levels) for each in self.factors if each.name == self.compare.factor)

    @property
    def compared_factors(self) -> frozenset[str]:
        """The factors in which the treatments of one group may differ."""
        if self.combinations:
            return frozenset(each.name for each in self.factors)
        return frozenset((self.compare.factor,))


def nothing_compared(experiment: Experiment) -> str | None:
    """Return a note for the user if the compared factor has no level except the base."""
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
    """Return a note for the user if `cache_mode = "cached"` would allow slices; else None."""
    if not experiment.slices_if_cached:
        return None
    return (
        "trials are interleaved. If the tables fit into the buffer pools of all compared servers "
        'at once, set `cache_mode = "cached"` in [parameters]: servers then take turns in slices, '
        "with far less noise (docs/design.md). To keep whole trials without this note, use "
        "--interleaved"
    )


@dataclass(frozen=True)
class Treatment:
    """One level of each factor; ``resolved`` has aliases replaced and defaults filled in.

    ``id`` is the same in every plan.
    """

    id: str
    levels: Mapping[str, Level]
    resolved: Mapping[str, Level]

    @property
    def label(self) -> str:
        return " · ".join(level_text(name, level) for name, level in self.levels.items())


@dataclass(frozen=True)
class PlannedTrial:
    """A planned run of one treatment.

    ``block`` counts from 0; profiled and counted trials have separate blocks, which also count from
    0. ``position`` is the trial's place in the run. A trial with purpose ``aa`` is a second trial
    of the base in a block. ``slot`` is the trial's place in its round of slices, None without a
    round; the trials of a round are neighbours.
    """

    id: str
    treatment: Treatment
    block: int
    position: int
    purpose: Purpose = "measure"
    slot: int | None = None


@dataclass(frozen=True)
class Plan:
    """The ordered trials of an experiment; ``digest`` identifies what they measure."""

    experiment: Experiment
    digest: str
    seed: int
    treatments: tuple[Treatment, ...]
    trials: tuple[PlannedTrial, ...]

    def share_of_time(self, trial: PlannedTrial) -> float:
        """Return a trial's share of its round's time; 1 for a trial without a round."""
        return 1.0 if trial.slot is None else 1 / self.experiment.treatments_at_once

    def only(self, trials: Iterable[PlannedTrial], *, after: int = 0) -> Plan:
        """Return the plan with only these trials; positions count from ``after``."""
        placed = (replace(trial, position=after + at) for at, trial in enumerate(trials))
        return replace(self, trials=tuple(placed))
