"""Rank likely causes by their evidence, and facts that may be behind a difference.

Options, plans and counters of an operation are facts, whether or not the times differ for certain:
they are exact, and need no significance. So are facts listed where latencies do not differ by more
than chance, and where no setting is among the causes that the times point to. The rank of a fact is
the specificity of its evidence times its reach: the share of an operation's time, on the side that
it costs, in which it can act at all. Facts that cost the side that looks faster count for less.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from millrace.analysis.certainty import Certainty
from millrace.analysis.counts.model import CountComparison
from millrace.analysis.explain.causes import finders
from millrace.analysis.explain.causes.evidence import CPU, Evidence, SideEvidence
from millrace.analysis.explain.causes.known import Setting, Topic, known
from millrace.analysis.explain.causes.model import (
    Finding,
    Kind,
    LikelyCause,
    capitalised,
    count_text,
    listed,
    share_text,
    us_text,
)
from millrace.analysis.explain.causes.settings import (
    Names,
    Values,
    amounts,
    builds,
    can_act,
    collations,
    collations_text,
    counts_more_of,
    grew,
    most_of,
    names_of,
    only_varied,
    options,
    settings_text,
    unlike_collations,
    values_of,
)
from millrace.analysis.explain.efficiency import EfficiencyRow
from millrace.analysis.explain.plans import PlanComparison
from millrace.analysis.explain.time_breakdown import PartKey, TimeBreakdown

LEAST_SHARE = 0.02
"""Of the difference: what explains less is not worth a sentence."""

_WHOLE = 0.995  # of the difference: what would be written as all of it
_MUCH_MORE = 1.2  # times what moved for certain, for a bound to say why it is more

_FINDERS = (
    only_varied, finders.environment, finders.plans, options, finders.work, finders.compression,
    finders.locks, finders.storage, builds, finders.cpu, finders.client, collations,
)  # fmt: skip


def rank_causes(evidence: Evidence) -> tuple[LikelyCause, ...]:
    """Rank the likely causes of the difference; empty where latencies do not differ.

    The rank is the share of the difference that the evidence covers, times the specificity of the
    evidence: first a disturbance of only one side, then a plan, a differing setting known to move
    the parts that moved, counters that moved along, and last a part that moved alone.
    """
    if evidence.why_not_different:
        return ()
    findings = (finding for finder in _FINDERS for finding in finder(evidence))
    found = [each for each in findings if each.us >= LEAST_SHARE * evidence.size_us]
    # Evidence for more than the whole difference counts as for the whole. The sort is stable:
    # the order of finders breaks ties.
    found.sort(key=lambda each: -each.weight * min(each.us / evidence.size_us, 1.0))
    first = {(each.kind, each.about): each for each in reversed(found)}
    once = [each for each in found if first[each.kind, each.about] is each]
    return tuple(_likely_cause(evidence, each) for each in once)


def with_facts(
    causes: tuple[LikelyCause, ...], facts: tuple[LikelyCause, ...]
) -> tuple[LikelyCause, ...]:
    """Return the causes that the times show, and facts where these name no setting or plan.

    Where the times show none, all facts follow, else those that are settings or plans. Counted
    instructions always follow.
    """
    named = any(cause.kind in ("option", "plan") for cause in causes)
    kinds = ("instructions",) if named else ("option", "plan", "instructions", "tables")
    there = {(cause.kind, cause.about) for cause in causes}
    more = [fact for fact in facts if (fact.kind, fact.about) not in there]
    return (*causes, *(fact for fact in more if not causes or fact.kind in kinds))


def why_no_causes(evidence: Evidence) -> str:
    """Explain why the times show no likely cause, and which parts differ nevertheless."""
    if not evidence.why_not_different:
        return (
            f"No cause follows from the times: latencies differ, and nothing that was seen makes "
            f"{share_text(LEAST_SHARE)} of the difference or more."
        )
    parts = []
    for line in evidence.differences.lines:
        if line.significant:
            more = "more" if line.difference.mean > 0 else "less"
            parts.append(f"{line.title} ({us_text(line.difference.mean)} {more} in B)")
    nevertheless = f" Parts of them do: {'; '.join(parts)}." if parts else ""
    return f"No cause follows from the times: {evidence.why_not_different}.{nevertheless}"


def _likely_cause(evidence: Evidence, found: Finding) -> LikelyCause:
    share = found.us / evidence.size_us
    return LikelyCause(
        kind=found.kind,
        about=found.about,
        sentence=_sentence(evidence, found, share),
        clause=capitalised(found.clause, found.settings, found.names),
        evidence=found.evidence,
        us=evidence.sign * found.us,
        share=share,
        settings=found.settings,
        names=found.names,
        certainty=found.certainty,
        may_be_most=found.may_be_most,
    )


def _sentence(evidence: Evidence, found: Finding, share: float) -> str:
    """State the finding, what it is consistent with, and its share of the difference."""
    clause = capitalised(found.clause, found.settings, found.names)
    if found.consequence:
        clause = f"{clause}; consistent with {found.consequence}"
    whole = us_text(evidence.size_us)
    if found.most_us is not None:
        return f"{clause} ({_bound(evidence, found.us, found.most_us)} difference of {whole})"
    us = us_text(found.us)
    in_all = "" if us in clause else f"{us} a {evidence.noun} in all, "
    if share > 1:
        return f"{clause} ({in_all}more than the whole difference of {whole})"
    return f"{clause} ({in_all}{share_text(share)} of the difference of {whole})"


def _bound(evidence: Evidence, us: float, most_us: float) -> str:
    """Return text such as ``at most 120 µs a transaction, 60 % of the``."""
    besides = "with all that may come of it, " if most_us > _MUCH_MORE * us else ""
    share = most_us / evidence.size_us
    if share >= _WHOLE:
        return f"{besides}up to the whole"
    return f"{besides}at most {us_text(most_us)} a {evidence.noun}, {share_text(share)} of the"


MOST_FACTS = 6

_PLAN, _SWITCH, _SIZE, _COUNTER, _CPU_TIME = 2.6, 2.0, 1.0, 1.3, 1.0  # weights
_INSTRUCTIONS = 1.6  # more specific than CPU time: functions are known
_TABLES = 0.4  # weight
_HALF = 0.5  # of what the two look apart
_LEAST = 0.1  # score
_AGAINST = 0.25  # times the score, of what costs the side that looks faster
_MORE = 1.1  # times as many of a counter
_GRADUAL = ("larger", "smaller")  # values of which more need not cost more
_MORE_INSTRUCTIONS = 1.02  # times as many
_FUNCTIONS = 3  # that a sentence on instructions names
_KINDS = 2  # of background threads that a sentence names

_FLUSHES: tuple[PartKey, ...] = ("log_flush", "fsync", "log_write")
_COUNTED: Mapping[str, tuple[Kind, tuple[PartKey, ...]]] = {
    "fsyncs": ("storage", _FLUSHES),
    "pool_misses": ("storage", ("data_read",)),
    "write_kb": ("storage", ("data_write", *_FLUSHES)),
    "redo_bytes": ("storage", ("data_write", *_FLUSHES)),
    "rows_examined": ("work", ("data_read", *CPU)),
}


@dataclass(frozen=True)
class Contrast:
    """Two treatments, and what was compared besides their times.

    The breakdowns are of A and of B, None where too little was observed, as is ``evidence`` of the
    times; ``instructions`` are None where neither was counted.
    """

    a: SideEvidence
    b: SideEvidence
    noun: str
    plans: Sequence[PlanComparison]
    efficiency: Sequence[EfficiencyRow]
    breakdowns: tuple[TimeBreakdown | None, TimeBreakdown | None]
    instructions: CountComparison | None = None
    evidence: Evidence | None = None

    @cached_property
    def looks_slower(self) -> str:
        """Return "A" or "B": the side whose operations took longer, by chance or not."""
        a, b = (
            {trial.block: math.log(trial.observed.cycle_us) for trial in side.trials}
            for side in (self.a, self.b)
        )
        blocks = a.keys() & b.keys()
        return "B" if math.fsum(b[block] - a[block] for block in blocks) >= 0 else "A"

    def sides(self, costs: str) -> tuple[SideEvidence, SideEvidence]:
        """Return the side that a fact does not cost, and the one that it does."""
        return (self.a, self.b) if costs == "B" else (self.b, self.a)

    def reach(self, costs: str, parts: Sequence[PartKey]) -> float:
        """Return the share of an operation's time in ``parts``, 1 where that is not known."""
        found = self.breakdowns[1 if costs == "B" else 0]
        if found is None or not found.latency.mean:
            return 1.0
        measured = [found.part(key) for key in parts]
        known_us = [part.us.mean for part in measured if part is not None]
        if len(known_us) < len(measured):
            return 1.0
        return min(math.fsum(known_us) / found.latency.mean, 1.0)


@dataclass(frozen=True)
class _Fact:
    """A fact that costs a side ("A" or "B"); its reach is a share of an operation's time."""

    costs: str
    reach: float
    weight: float
    cause: LikelyCause


def rank_facts(contrast: Contrast) -> tuple[LikelyCause, ...]:
    """Rank the facts that may be behind a difference; at most six."""
    facts = [fact for finder in _FACT_FINDERS for fact in finder(contrast)]
    facts.sort(key=lambda fact: -_score(fact, contrast))
    likely = [fact for fact in facts if _score(fact, contrast) >= _LEAST]
    return tuple(_cause_of(fact, contrast) for fact in likely[:MOST_FACTS])


def _score(fact: _Fact, contrast: Contrast) -> float:
    towards = 1.0 if fact.costs == contrast.looks_slower else _AGAINST
    return fact.weight * fact.reach * towards


def _cause_of(fact: _Fact, contrast: Contrast) -> LikelyCause:
    """Return the cause of a fact, which says so where it costs the side that looks faster."""
    if fact.costs == contrast.looks_slower:
        return fact.cause
    against = f"(it costs {fact.costs}, although {fact.costs} looks faster)"
    sentence = f"{fact.cause.sentence} {against}"
    return replace(fact.cause, sentence=sentence, certainty=Certainty.FACT_AGAINST)


def _fact(
    kind: Kind,
    about: str,
    clause: str,
    evidence: Sequence[str] = (),
    *,
    settings: Values | None = None,
    names: Names | None = None,
    may_be_most: bool = True,
) -> LikelyCause:
    settings, names = settings or {}, names or {}
    sentence = capitalised(clause, settings, names)
    return LikelyCause(
        kind=kind,
        about=about,
        sentence=sentence,
        clause=sentence,
        evidence=tuple(evidence),
        us=None,
        share=None,
        settings=settings,
        names=names,
        certainty=Certainty.FACT,
        may_be_most=may_be_most,
    )


def _plans(contrast: Contrast) -> Iterator[_Fact]:
    different = [plan for plan in contrast.plans if plan.differs_for(contrast.looks_slower)]
    if different:
        first = different[0].different[0] if different[0].different else "see EXPLAIN"
        names = listed([plan.statement for plan in different[:3]])
        details = [f"{plan.statement}: {each}" for plan in different for each in plan.different]
        cause = _fact("plan", "plan", f"the plan of {names} is another one ({first})", details)
        costs = contrast.looks_slower
        yield _Fact(costs, contrast.reach(costs, (*CPU, "data_read")), _PLAN, cause)


def _settings(contrast: Contrast) -> Iterator[_Fact]:
    """Yield settings that are known to cost one side more, whichever it is."""
    a, b = contrast.a, contrast.b
    for topic in known().topic:
        if not can_act((a, b), contrast.plans, topic, ()):
            continue
        for costs in ("A", "B"):
            better, worse = contrast.sides(costs)
            dearer = [each for each in topic.settings if _is_dearer(each, better, worse)]
            if not dearer or not grew(better, worse, topic):
                continue
            if _is_ruled_out(contrast, topic, costs):
                continue
            values = values_of(a, b, dearer)
            cause = _fact(
                "option",
                topic.name,
                settings_text(a, b, dearer),
                tuple(amounts(a, b, topic, contrast.noun)),
                settings=values,
                names=names_of(a, b, dearer),
                may_be_most=_may_be_most(contrast, topic, costs, values),
            )
            reach = contrast.reach(costs, topic.parts)
            yield _Fact(costs, reach, _weight(topic, dearer), cause)


def _is_ruled_out(contrast: Contrast, topic: Topic, costs: str) -> bool:
    """Return whether a topic can have made less than half of a difference that is certain."""
    evidence = contrast.evidence
    if evidence is None or evidence.why_not_different or costs != contrast.looks_slower:
        return False
    return most_of(evidence, topic) < _HALF * evidence.size_us


def _may_be_most(contrast: Contrast, topic: Topic, costs: str, values: Values) -> bool:
    """Return whether a topic may have made half of what the two look apart, as far as is known.

    The experiment varies it, or counters show that it acted, and the statements in which it acts
    took as much longer.
    """
    evidence, statements = contrast.evidence, topic.acts.statements
    if costs != contrast.looks_slower:
        return False
    if evidence is not None and not evidence.varied.keys().isdisjoint(values):
        return True
    if not counts_more_of(topic, *contrast.sides(costs)):
        return False
    if evidence is None or statements is None or not evidence.statements:
        return True
    return evidence.growth_in(statements)[0] >= _HALF * evidence.size_us


def _collations(contrast: Contrast) -> Iterator[_Fact]:
    found = unlike_collations(contrast.a, contrast.b)
    if found:
        costs = contrast.looks_slower
        clause = collations_text(found)
        cause = _fact("tables", "collation of tables", clause, may_be_most=False)
        yield _Fact(costs, contrast.reach(costs, ("cpu_user",)), _TABLES, cause)


def _is_dearer(setting: Setting, better: SideEvidence, worse: SideEvidence) -> bool:
    """Return whether a setting costs the worse side, as is known without any measurement."""
    return setting.dearer != "any" and setting.is_dearer(better.settings, worse.settings)


def _weight(topic: Topic, dearer: Sequence[Setting]) -> float:
    """Return the weight of settings: that of sizes is less, unless counters show their effect."""
    gradual = all(each.dearer in _GRADUAL for each in dearer) and not topic.grows
    return topic.certainty * (_SIZE if gradual else _SWITCH)


def _counters(contrast: Contrast) -> Iterator[_Fact]:
    """Yield what one side does more of in an operation, in every block."""
    for row in contrast.efficiency:
        if row.key not in _COUNTED or row.a is None or row.b is None or row.difference is None:
            continue
        one_block = row.difference.low is None
        few, many = sorted((row.a.mean, row.b.mean))
        if many <= _MORE * few or not (one_block or row.difference.excludes_0):
            continue
        kind, parts = _COUNTED[row.key]
        unit = f" {row.unit}" if row.unit else ""
        a, b = (f"{count_text(side.mean)}{unit}" for side in (row.a, row.b))
        clause = f"{row.title} per {contrast.noun}: {a} in A and {b} in B"
        cause = _fact(kind, row.title, clause)
        costs = "B" if row.difference.mean > 0 else "A"
        yield _Fact(costs, contrast.reach(costs, parts), _COUNTER, cause)


def _cpu(contrast: Contrast) -> Iterator[_Fact]:
    """Yield CPU time that differs for certain, of threads that serve clients and of others."""
    of_row = {"cpu_foreground": "threads of clients", "cpu_background": "background threads"}
    for row in contrast.efficiency:
        if row.key not in of_row or row.difference is None or not row.significant:
            continue
        more = "more" if row.difference.mean > 0 else "less"
        us, costs = abs(row.difference.mean), "B" if row.difference.mean > 0 else "A"
        clause = f"{of_row[row.key]} took {us_text(us)} {more} of CPU a {contrast.noun} in B"
        details = list(_background(contrast)) if row.key == "cpu_background" else []
        found = contrast.breakdowns[1 if costs == "B" else 0]
        share = us / found.latency.mean if found is not None and found.latency.mean else 1.0
        cause = _fact("cpu", row.title, f"{clause}, by more than chance", details)
        yield _Fact(costs, min(share, 1.0), _CPU_TIME, cause)


def _background(contrast: Contrast) -> Iterator[str]:
    """Yield the kinds of background threads whose CPU time differs most."""
    a, b = contrast.breakdowns
    if a is None or b is None:
        return
    of_a, of_b = ({kind: each.mean for kind, each in side.background.items()} for side in (a, b))
    kinds = sorted(of_a | of_b, key=lambda kind: -abs(of_b.get(kind, 0.0) - of_a.get(kind, 0.0)))
    for kind in kinds[:_KINDS]:
        sides = (us_text(of.get(kind, 0.0)) for of in (of_a, of_b))
        yield f"{kind}: {' in A, '.join(sides)} in B"


def _instructions(contrast: Contrast) -> Iterator[_Fact]:
    """Yield the instructions that one side executes more of, and the functions that do."""
    found = contrast.instructions
    if found is None or found.ratio is None or found.verdict not in ("more", "fewer"):
        return
    costs, sign = ("B", 1) if found.ratio.ratio > 1 else ("A", -1)
    times = found.ratio.ratio**sign
    if times < _MORE_INSTRUCTIONS:
        return
    a, b = (count_text(of.mean or 0.0) for of in (found.base, found.candidate))
    more = [each for each in found.functions if each.difference * sign > 0]
    functions = [
        f"{each.name}, with all that it calls: {count_text(abs(each.difference))} more"
        for each in more[:_FUNCTIONS]
    ]
    clause = (
        f"{costs} executes {times:.3g} times the instructions per statement: {a} in A, {b} in B"
    )
    cause = _fact("instructions", "more instructions", clause, (*functions, *found.notes))
    yield _Fact(costs, contrast.reach(costs, CPU), _INSTRUCTIONS, cause)


_FACT_FINDERS = (_plans, _settings, _counters, _instructions, _cpu, _collations)
