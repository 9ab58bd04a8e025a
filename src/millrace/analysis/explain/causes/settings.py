"""Likely causes in the settings and the builds of two servers."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from millrace.analysis.certainty import Certainty
from millrace.analysis.explain.causes.evidence import CPU, Evidence, SideEvidence
from millrace.analysis.explain.causes.known import BuildFact, Setting, Topic, known
from millrace.analysis.explain.causes.model import Finding, count_text, listed, us_text
from millrace.analysis.explain.plans import PlanComparison
from millrace.quantities import exact_size

# A setting that is known to affect what grew says more than what moved. A build, and a setting that
# may cost CPU time like all else, say as much only where their own counters or functions grew.
_OPTION, _VAGUE_OPTION, _BUILD, _VAGUE_BUILD = 2.0, 0.8, 1.3, 0.4
_GREW = 1.1  # times as many of a counter, for it to be evidence of its own

Values = Mapping[str, tuple[str | None, str | None]]

_LONGEST_VALUE = 40
_MOST_SWITCHES = 3
_LEAST_SIZE = 1 << 16  # from here on a number is likely to be one of bytes: 128M


def options(evidence: Evidence) -> Iterator[Finding]:
    """Yield settings that cost more on the worse side and are known to affect what grew."""
    better, worse = evidence.better.settings, evidence.worse.settings
    for topic in known().topic:
        dearer = [each for each in topic.settings if each.is_dearer(better, worse)]
        if not dearer or not counters_grew(evidence.better, evidence.worse, topic):
            continue
        both = (evidence.a, evidence.b)
        if not may_matter(both, evidence.plans, topic, evidence.group_growth_us):
            continue
        us, consequence = _claim(evidence, topic)
        if us <= 0:
            continue
        values = values_of(evidence.a, evidence.b, dearer)
        waits = evidence.growth_of(topic.waits) > 0
        is_likely = topic.certainty == 1 or _has_own_evidence(evidence, topic)
        yield Finding(
            kind="option",
            about=topic.name,
            clause=f"{values_text(values)}: {topic.does}",
            us=us,
            consequence=consequence,
            weight=topic.certainty * (_OPTION if is_likely or waits else _VAGUE_OPTION),
            most_us=_most(evidence, topic),
            evidence=tuple(amounts(evidence.a, evidence.b, topic, evidence.noun)),
            settings=values,
            certainty=Certainty.LIKELY if is_likely else Certainty.POSSIBLE,
        )


def builds(evidence: Evidence) -> Iterator[Finding]:
    """Yield the differences between the builds that may affect the parts that grew."""
    for fact in known().build:
        a, b = _fact(evidence.a, fact), _fact(evidence.b, fact)
        if a is None or b is None or a == b:
            continue
        us, consequence = _claim(evidence, fact)
        if us <= 0:
            continue
        values: Values = {fact.name: (a, b)}
        is_likely = _has_own_evidence(evidence, fact)
        yield Finding(
            kind="build",
            about=fact.name,
            clause=f"{values_text(values)}: {fact.does}",
            us=us,
            consequence=consequence,
            weight=_BUILD if is_likely else _VAGUE_BUILD,
            most_us=_most(evidence, fact),
            settings=values,
            certainty=Certainty.LIKELY if is_likely else Certainty.POSSIBLE,
        )


def _has_own_evidence(evidence: Evidence, topic: Topic) -> bool:
    """Return whether functions or counters of a topic's own grew, not only parts of the time."""
    if any(evidence.group_growth_us.get(name) for name in topic.groups):
        return True
    if not topic.counters:
        return False
    counts = evidence.better_and_worse(lambda side: side.own_counters(*topic.counters))
    return counts is not None and counts[1] > _GREW * counts[0]


def _claim(evidence: Evidence, topic: Topic) -> tuple[float, str]:
    """Estimate the share of a topic in the parts that grew, and describe it in words."""
    us = evidence.growth_of(topic.waits)
    clauses = list(evidence.growth_texts(topic.waits))
    cpu_us, clause = _cpu(evidence, topic) if topic.cpu else (0.0, "")
    if cpu_us:
        # Where the queue is among a topic's parts, it is claimed already.
        queues = "runnable" in topic.waits
        us += cpu_us if queues else evidence.with_queue(cpu_us)
        clauses.append(clause if queues else f"{clause}{evidence.and_queue(cpu_us)}")
    return us, listed(clauses)


def _cpu(evidence: Evidence, topic: Topic) -> tuple[float, str]:
    """Return the CPU time that a topic may have cost: its functions', else as far as known."""
    grown_us = evidence.growth_of(topic.cpu)
    growth = evidence.group_growth_us
    if names := [name for name in topic.groups if name in growth]:
        us = math.fsum(growth[name] for name in names)
        largest_first = sorted(names, key=lambda name: -growth[name])
        purposes = listed([evidence.group_title(name) for name in largest_first])
        return us, f"{us_text(us)} {evidence.more} of CPU in functions for {purposes}"
    if not grown_us or (evidence.groups and topic.groups):
        return 0.0, ""
    us = min(grown_us, _known_cpu(evidence, topic))
    at_most = "" if us == grown_us else f", of which this is known to make {us_text(us)} at most"
    where = "" if topic.cpu == CPU else " in user code"
    return us, f"{us_text(grown_us)} {evidence.more} on CPU{where}{at_most}"


def _known_cpu(evidence: Evidence, topic: Topic) -> float:
    return math.inf if topic.cpu_share is None else topic.cpu_share * evidence.better_us(topic.cpu)


def _most(evidence: Evidence, topic: Topic) -> float:
    """Return an upper bound of a topic's share in the difference.

    All of its parts count at the upper ends of their intervals; the queue for CPUs counts by the
    topic's share of the CPU time that grew.
    """
    cpu_us = _most_cpu(evidence, topic)
    most_us = evidence.growth_at_most(topic.waits) + cpu_us
    all_cpu_us = evidence.growth_of(CPU) or evidence.growth_at_most(CPU)
    if all_cpu_us and "runnable" not in topic.waits:
        most_us += evidence.growth_at_most(["runnable"]) * min(cpu_us / all_cpu_us, 1.0)
    return min(most_us, evidence.size_us)


def _most_cpu(evidence: Evidence, topic: Topic) -> float:
    """Return a bound of the CPU time that a topic made: its functions', where there is a profile.

    A thread that waits more needs more CPU time everywhere, for context switches and cold caches.
    """
    if evidence.growth_of(topic.waits):
        return evidence.growth_at_most(CPU)
    if evidence.groups and topic.groups:
        return evidence.groups_growth_at_most(topic.groups)
    return min(evidence.growth_at_most(topic.cpu), _known_cpu(evidence, topic))


def values_of(a: SideEvidence, b: SideEvidence, chosen: Sequence[Setting]) -> Values:
    """Return the values of settings in A and B, under the names that these use."""
    of_a, of_b = a.settings, b.settings
    return {each.name_of(of_a, of_b): (each.value(of_a), each.value(of_b)) for each in chosen}


def counters_grew(better: SideEvidence, worse: SideEvidence, topic: Topic) -> bool:
    """Return whether an operation of the worse side counts more, as far as that is known."""
    if not topic.counters:
        return True
    few, many = (side.own_counters(*topic.counters) for side in (better, worse))
    return few is None or many is None or many > few


def may_matter(
    sides: tuple[SideEvidence, SideEvidence],
    plans: Sequence[PlanComparison],
    topic: Topic,
    moved: Collection[str],
) -> bool:
    """Return whether a topic may affect these operations, as far as the topic says.

    ``moved`` names the groups of functions that need more CPU time on one side.
    """
    if topic.by_plan and not any(name in moved for name in topic.groups):
        known_plans = {plan.same for plan in plans} - {None}
        if known_plans == {True}:
            return False
    if topic.clients > max(side.clients for side in sides):
        return False
    if topic.only is None:
        return True
    counts = [side.own_counters(*topic.only.counters) for side in sides]
    return any(count is not None and count >= topic.only.per_operation for count in counts) or any(
        words in said for said in _said_by_plans(plans) for words in topic.only.plans
    )


def _said_by_plans(plans: Sequence[PlanComparison]) -> Iterator[str]:
    """Yield EXPLAIN's statements about steps other than how tables are read."""
    for plan in plans:
        for side in (plan.a, plan.b):
            for row in () if side is None else side.rows:
                yield from (str(said) for name, said in row.items() if name.lower() == "extra")


def amounts(a: SideEvidence, b: SideEvidence, topic: Topic, noun: str) -> Iterator[str]:
    """Yield what the servers counted of a topic, for an operation of each side."""
    for name in topic.counters:
        of_a, of_b = a.own_counters(name), b.own_counters(name)
        if of_a is not None and of_b is not None:
            yield f"{name} per {noun}: {count_text(of_a)} in A, {count_text(of_b)} in B"
    for name in topic.amounts:
        of_a, of_b = a.neutral_counter(name), b.neutral_counter(name)
        if of_a is not None and of_b is not None and (of_a or of_b):
            what = (b if of_b else a).own_name(name)
            yield f"{what} per {noun}: {count_text(of_a)} in A, {count_text(of_b)} in B"


def values_text(values: Values) -> str:
    """Return text such as ``log_bin is OFF in A and ON in B``."""
    shown = {name: _shown(a, b) for name, (a, b) in values.items()}
    return listed([f"{name} is {a} in A and {b} in B" for name, (a, b) in shown.items()])


def _shown(a: str | None, b: str | None) -> tuple[str, str]:
    """Return two different values, shortened to their difference."""
    switches = [_switches(value) for value in (a, b)]
    if all(switches):
        one, other = switches
        names = [name for name in one | other if one.get(name) != other.get(name)]
        names.sort(key=lambda name: name not in one or name not in other)
        return _some_switches(one, names), _some_switches(other, names)
    found = _short(a), _short(b)
    if a is None or b is None or found[0] != found[1]:
        return found
    pairs = enumerate(zip(a, b, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(a), len(b)))
    return _short(f"…{a[same:]}"), _short(f"…{b[same:]}")


def _switches(value: str | None) -> dict[str, str]:
    """Return the switches of text such as ``mrr=on,mrr_cost_based=off`` by name."""
    each = [text.strip().partition("=") for text in (value or "").split(",")]
    return {name: state for name, _, state in each} if all(sign for _, sign, _ in each) else {}


def _some_switches(switches: Mapping[str, str], names: Sequence[str]) -> str:
    """Return text such as ``mrr=on, hash_join=off and 2 more``."""
    named = [
        f"{name}={switches[name]}" if name in switches else f"without {name}"
        for name in names[:_MOST_SWITCHES]
    ]
    more = len(names) - len(named)
    return f"{', '.join(named)} and {more} more" if more else ", ".join(named)


def _short(value: str | None) -> str:
    if value is None:
        return "not set"
    if not value:
        return "empty"
    if value.isdigit() and int(value) >= _LEAST_SIZE:
        return exact_size(int(value))
    return value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 1]}…"


def _fact(side: SideEvidence, fact: BuildFact) -> str | None:
    if side.instance is None:
        return None
    if fact.variable is not None:
        return side.instance.effective.get(fact.variable)
    if fact.fact is None:
        return None
    value = getattr(side.instance.server.build, fact.fact, None)
    return None if value is None else str(value)
