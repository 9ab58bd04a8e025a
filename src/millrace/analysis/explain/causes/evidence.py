"""Collect evidence for likely causes: two treatments, their times, and their observations.

Everything is put as a loss: ``worse`` is the side whose operations take longer, ``better`` the
other. A part that shrank on the worse side explains nothing of the loss.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from millrace.analysis.explain.causes.model import share_text, us_text
from millrace.analysis.explain.observations import Observed, ObservedTrial, figure_of
from millrace.analysis.explain.plans import PlanComparison
from millrace.analysis.explain.profiles import GroupDifference, LeadingFunction
from millrace.analysis.explain.time_breakdown import (
    PARTS,
    BreakdownDifference,
    PartKey,
    TrialBreakdown,
    trial_breakdown,
)
from millrace.levels import Level
from millrace.stats.mean import MeanEstimate, mean_estimate
from millrace.stats.ratio import RatioEstimate, paired_ratio
from millrace.store.records import InstanceRecord

StatementKind = Literal["commits", "writes", "reads"]

Text = Callable[[float], str]
Ask = Callable[[Observed], float | None]

CPU: tuple[PartKey, ...] = ("cpu_user", "cpu_system")
_CLOCKED: tuple[PartKey, ...] = (*CPU, "runnable")

PAGE_FAULTS = "page_faults"
"""The name of the process's page faults among the server's counters."""

_LARGE = 0.1  # of the difference: chance seldom makes a part differ by so much of what is none
_APART = 3  # blocks: all of one side are larger by chance once in 20 times; with 2, once in 6
_MOST_PARTS = 3  # in a sentence
_EACH = 0.99  # COMMITs in an operation, for each transaction to end by one

# Parts as they stand in sentences, where that is not as in tables.
_IN_SENTENCES: Mapping[PartKey, str] = {
    "cpu_user": "on CPU",
    "cpu_system": "on CPU",
    "runnable": "waiting for a CPU",
    "client_wire": "in the client and on the wire",
}


@dataclass(frozen=True)
class SideEvidence:
    """One treatment: its resolved levels, its server as last recorded, and observed trials."""

    name: str
    levels: Mapping[str, Level]
    instance: InstanceRecord | None
    trials: tuple[ObservedTrial, ...]

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """Return effective variables, other requested options, and levels of factors, by name.

        The capacity of the redo log is there as the server's state has it.
        """
        found: dict[str, str] = {}
        for name, level in self.levels.items():
            if not name.startswith("options."):
                found[name] = str(level).lower() if isinstance(level, bool) else str(level)
        if self.instance is not None:
            for option in self.instance.options:
                if option.left_out is None:
                    name = option.name.replace("-", "_").lower().removeprefix("loose_")
                    found[name] = "ON" if option.value is None else option.value
            found |= self.instance.effective
            state = self.instance.facts.state
            if state is not None and state.log_capacity_bytes is not None:
                found["log_capacity_bytes"] = f"{state.log_capacity_bytes:.0f}"
        return found

    @property
    def collations(self) -> Mapping[str, tuple[str, ...]] | None:
        """Return the collations of each table's columns of text; None where nobody looked."""
        state = None if self.instance is None else self.instance.facts.state
        return None if state is None else state.collations

    @property
    def clients(self) -> int:
        clients = self.levels.get("clients", 1)
        return clients if isinstance(clients, int) else 1

    def by_block(self, ask: Ask) -> dict[int, float]:
        """Return a figure of each trial that has it."""
        values = {trial.block: ask(trial.observed) for trial in self.trials}
        return {block: value for block, value in values.items() if value is not None}

    def mean(self, ask: Ask) -> float | None:
        """Return the mean of a figure over the trials that have it; None where none has."""
        values = self.by_block(ask).values()
        return math.fsum(values) / len(values) if values else None

    def own_counters(self, *names: str) -> float | None:
        """Sum the growth of counters, by the server's own names, in one operation, if read."""

        def ask(observed: Observed) -> float | None:
            grown = observed.grown
            if grown is None:
                return None
            faults = figure_of(observed.process, "minor_faults") or 0.0
            counted = {**grown, PAGE_FAULTS: faults}
            return observed.per_operation(math.fsum(counted.get(name, 0.0) for name in names))

        return self.mean(ask)

    def neutral_counter(self, name: str) -> float | None:
        """Return the growth of one of the neutral ``Counters`` in one operation, if known."""

        def ask(observed: Observed) -> float | None:
            amount = observed.counted(name)
            return None if amount is None else observed.per_operation(amount)

        return self.mean(ask)

    def own_name(self, neutral_name: str) -> str:
        """Return the server's own name for one of the neutral counters."""
        counters = (trial.observed.counters for trial in self.trials)
        known = (getattr(each, neutral_name) for each in counters if each is not None)
        names = (each.name for each in known if each is not None)
        return next(names, neutral_name.replace("_", " "))


@dataclass(frozen=True)
class Growth:
    """A part's growth on the worse side in µs of an operation, and its interval's upper end."""

    us: float
    at_most_us: float
    better_us: float
    is_certain: bool


@dataclass(frozen=True)
class Evidence:
    """A and B, their breakdowns' ``differences``, and the other comparisons.

    ``statements`` are the differences of the statements whose time is known, in µs of an operation
    by name, and ``statement_kinds`` what each of them may do. ``varied`` are the options and
    factors in which the experiment makes A and B differ, with their values; none where it varies
    servers. ``functions`` make most of a difference in CPU time. ``unequal`` says in which way the
    two did not do the same work. ``margin`` is the smallest relative difference that matters.
    """

    a: SideEvidence
    b: SideEvidence
    noun: str
    differences: BreakdownDifference
    groups: tuple[GroupDifference, ...]
    plans: tuple[PlanComparison, ...]
    unequal: str
    margin: float
    statements: Mapping[str, MeanEstimate] = field(default_factory=dict)
    statement_kinds: Mapping[str, frozenset[StatementKind]] = field(default_factory=dict)
    varied: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    functions: tuple[LeadingFunction, ...] = ()

    # The two sides as a loss. Only this section knows which of them is A.

    @property
    def sign(self) -> int:
        return 1 if self.differences.latency.mean >= 0 else -1

    @property
    def worse(self) -> SideEvidence:
        return self.b if self.sign > 0 else self.a

    @property
    def better(self) -> SideEvidence:
        return self.a if self.sign > 0 else self.b

    @property
    def more(self) -> str:
        """Return "more" or "less": the direction in which B differs."""
        return "more" if self.sign > 0 else "less"

    def as_a_and_b(self, better: str, worse: str) -> tuple[str, str]:
        """Return the texts of the better and the worse side in the order of A and B."""
        return (better, worse) if self.sign > 0 else (worse, better)

    @cached_property
    def _growth(self) -> Mapping[PartKey, Growth]:
        found = {}
        for line in self.differences.lines:
            # No time is below zero: a part has not grown by more than it is.
            worse_us = line.b_us if self.sign > 0 else line.a_us
            us = min(self.sign * line.difference.mean, worse_us)
            found[line.key] = Growth(
                us=us,
                at_most_us=self._at_most(line.difference),
                better_us=line.a_us if self.sign > 0 else line.b_us,
                is_certain=us > 0
                and not any(line.below_zero)
                and (line.significant or self._is_large(line.key, us)),
            )
        return found

    @cached_property
    def _group_growth(self) -> Mapping[str, Growth]:
        """Return groups' growth in CPU time of client threads, with the interval of all threads."""
        found = {}
        for group in self.groups:
            us = self.sign * (group.b_foreground_us - group.a_foreground_us)
            of_all_us = self.sign * group.difference.mean
            found[group.name] = Growth(
                us=us,
                at_most_us=us + self._at_most(group.difference) - of_all_us,
                better_us=group.a_foreground_us if self.sign > 0 else group.b_foreground_us,
                is_certain=us > 0 and of_all_us > 0 and group.significant,
            )
        return found

    def growth_of_statements(self, names: Sequence[str]) -> float | None:
        """Return what statements take more in the worse side, in µs of an operation.

        None where the time of one of them is not known.
        """
        if not self.statements.keys() >= set(names):
            return None
        return self.sign * math.fsum(self.statements[name].mean for name in names)

    def growth_in(self, kind: StatementKind) -> tuple[float, float]:
        """Return the growth of the statements of a kind in µs of an operation, and its upper end.

        Both are infinite where statements are not broken down. Waits for row locks count too, since
        the statement that waits is not the one that holds them for longer.
        """
        if not self.statements:
            return math.inf, math.inf
        names = [name for name in self.statements if kind in self.statement_kinds.get(name, ())]
        found = [self.statements[name] for name in names]
        waits_s = self.neutral_counters("row_lock_s")
        waits_us = 0.0 if waits_s is None else max(1e6 * (waits_s[1] - waits_s[0]), 0.0)
        us = self.sign * math.fsum(each.mean for each in found)
        most_us = math.fsum(max(self._at_most(each), 0.0) for each in found)
        return us + waits_us, most_us + waits_us

    def _at_most(self, difference: MeanEstimate) -> float:
        """Return the end of an interval that is worst for the worse side."""
        end = difference.high if self.sign > 0 else difference.low
        return math.inf if end is None else self.sign * end

    # The difference as a whole.

    @cached_property
    def why_not_different(self) -> str:
        """Explain why latencies do not differ, by the rule of verdicts; empty where they do."""
        found = self.latency_ratio
        if found is None:
            return "latencies are not known"
        if found.low is None or found.high is None:
            return "latencies of one block may differ by chance"
        if found.low <= 1 <= found.high:
            return "latencies do not differ by more than chance"
        if max(found.ratio, 1 / found.ratio) <= 1 + self.margin:
            return f"latencies do not differ by more than {share_text(self.margin)}"
        return ""

    @cached_property
    def latency_ratio(self) -> RatioEstimate | None:
        """Return the ratio of latencies B / A, as a verdict has it; None where one is not known."""
        pairs = [(one.latency_us, other.latency_us) for one, other in self._pairs]
        if not pairs or min(map(min, pairs)) <= 0:
            return None
        return paired_ratio(*zip(*pairs, strict=True))

    @cached_property
    def _pairs(self) -> Sequence[tuple[TrialBreakdown, TrialBreakdown]]:
        """Return A's and B's breakdown in each block of their differences."""
        of_a, of_b = (
            {trial.block: found for trial in side.trials if (found := trial_breakdown(trial))}
            for side in (self.a, self.b)
        )
        return [(of_a[block], of_b[block]) for block in self.differences.blocks]

    @property
    def size_us(self) -> float:
        """Return the whole difference, without its sign."""
        return abs(self.differences.latency.mean)

    @cached_property
    def better_latency_us(self) -> float:
        sides = list(zip(*self._pairs, strict=True))
        return min(math.fsum(each.latency_us for each in side) / len(side) for side in sides)

    # Growth on the worse side: parts of the time, groups of functions, and the queue for CPUs.

    @cached_property
    def growth_us(self) -> Mapping[PartKey, float]:
        """Return the parts that are certainly larger on the worse side, and by how much."""
        return {key: each.us for key, each in self._growth.items() if each.is_certain}

    @cached_property
    def group_growth_us(self) -> Mapping[str, float]:
        """Return the groups of functions that certainly need more CPU time on the worse side."""
        return {name: each.us for name, each in self._group_growth.items() if each.is_certain}

    def _is_large(self, key: PartKey, us: float) -> bool:
        """Return whether a part makes much of the difference, by more than chance."""
        if abs(us) < _LARGE * self.size_us:
            return False
        moves, errors = [], []
        for a, b in self._pairs:
            if key in a.parts and key in b.parts:
                whole_us = a.latency_us + b.latency_us
                moves.append((b.parts[key].us - a.parts[key].us) / whole_us)
                errors.append(math.hypot(a.parts[key].error_us, b.parts[key].error_us) / whole_us)
        if not moves:
            return False
        return mean_estimate(moves, least_error=math.hypot(*errors) / len(moves)).excludes_0

    def growth_of(self, parts: Iterable[PartKey]) -> float:
        return math.fsum(self.growth_us.get(key, 0.0) for key in parts)

    def growth_at_most(self, parts: Iterable[PartKey]) -> float:
        """Bound the growth of some parts by the ends of their intervals, in µs.

        The unaccounted time may be any of them but those that clocks measure.
        """
        wanted = frozenset(parts)
        bounds = [growth.at_most_us for key, growth in self._growth.items() if key in wanted]
        if not wanted <= {key for key in self._growth if key in _CLOCKED}:
            bounds.append(self._at_most(self.differences.unaccounted.difference))
        return math.fsum(max(bound, 0.0) for bound in bounds)

    def groups_growth_at_most(self, names: Iterable[str]) -> float:
        """Bound the growth in CPU time of some groups of functions, in µs."""
        wanted = frozenset(names)
        growth = (each for name, each in self._group_growth.items() if name in wanted)
        return math.fsum(max(each.at_most_us, 0.0) for each in growth)

    def better_us(self, parts: Iterable[PartKey]) -> float:
        wanted = frozenset(parts)
        return math.fsum(each.better_us for key, each in self._growth.items() if key in wanted)

    def growth_texts(self, parts: Iterable[PartKey]) -> tuple[str, ...]:
        """Return text such as ``812 µs more waiting for the log``, largest parts first."""
        by_title: dict[str, float] = {}
        for key in parts:
            if us := self.growth_us.get(key, 0.0):
                title = _IN_SENTENCES.get(key, PARTS[key])
                by_title[title] = by_title.get(title, 0.0) + us
        largest = sorted(by_title, key=lambda title: -by_title[title])[:_MOST_PARTS]
        return tuple(f"{us_text(by_title[title])} {self.more} {title}" for title in largest)

    def group_title(self, name: str) -> str:
        return next((each.title for each in self.groups if each.name == name), name)

    @cached_property
    def queue_growth_us(self) -> float:
        """Estimate the growth of the wait for CPUs, in proportion to an operation's CPU time."""
        busy = self.better_and_worse(lambda side: side.mean(_cpu_us))
        if busy is None or not busy[0] or not self.growth_of(CPU):
            return 0.0
        growth = max(busy[1] / busy[0] - 1, 0.0)
        return min(self.growth_of(["runnable"]), growth * self.better_us(["runnable"]))

    def queue_of(self, cpu_us: float) -> float:
        """Return the share of the queue for CPUs that comes of this CPU time."""
        grown_us = self.growth_of(CPU)
        return self.queue_growth_us * min(cpu_us / grown_us, 1.0) if grown_us else 0.0

    def with_queue(self, cpu_us: float) -> float:
        return cpu_us + self.queue_of(cpu_us)

    def and_queue(self, cpu_us: float) -> str:
        """Return text such as ``, plus an estimated 262 µs of the queue for CPUs``, if any."""
        queue_us = self.queue_of(cpu_us)
        return f", plus an estimated {us_text(queue_us)} of the queue for CPUs" if queue_us else ""

    # Figures of both sides.

    def better_and_worse(
        self, ask: Callable[[SideEvidence], float | None]
    ) -> tuple[float, float] | None:
        """Return a figure of the better and of the worse side; None where either lacks it."""
        better, worse = ask(self.better), ask(self.worse)
        return None if better is None or worse is None else (better, worse)

    def neutral_counters(self, name: str) -> tuple[float, float] | None:
        """Return a counter's growth in an operation on the better and on the worse side."""
        return self.better_and_worse(lambda side: side.neutral_counter(name))

    def per_operation(self, what: str, both: tuple[float, float], text: Text) -> str:
        """Return text such as ``Bytes_sent per row: 12 in A, 14 in B``."""
        a, b = self.as_a_and_b(*map(text, both))
        return f"{what} per {self.noun}: {a} in A, {b} in B"


def is_larger(better: Mapping[int, float], worse: Mapping[int, float], *, by: float) -> bool:
    """Return whether a figure is larger on the worse side, by ``by`` and more than chance.

    That is significantly over the blocks, or in every trial than in any of the other side.
    """
    blocks = sorted(better.keys() & worse.keys())
    if not blocks:
        return False
    difference = mean_estimate([worse[block] - better[block] for block in blocks])
    apart = len(blocks) >= _APART and min(worse.values()) > max(better.values())
    return difference.mean >= by and (apart or difference.excludes_0)


_FIRST_WORD = re.compile(r"(?:/\*.*?\*/|--[^\n]*\n|\W)*(\w+)", re.DOTALL)
_READS: frozenset[StatementKind] = frozenset({"reads"})
_WRITES: frozenset[StatementKind] = frozenset({"writes"})
_COMMITS: frozenset[StatementKind] = frozenset({"commits"})
_BY_WORD: Mapping[str, frozenset[StatementKind]] = {
    **dict.fromkeys(("SELECT", "SHOW", "VALUES", "TABLE"), _READS),
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD"), _WRITES),
    **dict.fromkeys(("BEGIN", "START", "SET", "ROLLBACK"), frozenset[StatementKind]()),
    "COMMIT": _COMMITS,
}


def kinds_of_statements(
    texts: Mapping[str, str | None], times: Mapping[str, float]
) -> Mapping[str, frozenset[StatementKind]]:
    """Return what each statement may do, by its text; any of it where that is not known.

    A write commits too where fewer than one COMMIT is sent in an operation (``times``), because it
    may be outside a transaction.
    """
    in_transactions = times.get("COMMIT", 0.0) > _EACH
    found = {}
    for name, text in texts.items():
        word = _FIRST_WORD.match(text or "")
        kinds = _BY_WORD.get(word[1].upper() if word else "", _READS | _WRITES | _COMMITS)
        found[name] = kinds | _COMMITS if kinds == _WRITES and not in_transactions else kinds
    return found


def _cpu_us(observed: Observed) -> float | None:
    """Return the CPU time of an operation; without the client's where servers share it."""
    if observed.process is None or observed.process.cpu_s is None:
        return None
    return observed.us(observed.process.cpu_s) + (observed.work.client_cpu_us or 0.0)
