"""Likely causes in the settings and the builds of two servers, and in the tables that they made."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from millrace.analysis.certainty import Certainty
from millrace.analysis.explain.causes.evidence import CPU, PAGE_FAULTS, Evidence, SideEvidence
from millrace.analysis.explain.causes.known import BuildFact, Setting, Topic, known
from millrace.analysis.explain.causes.model import Finding, count_text, listed, us_text
from millrace.analysis.explain.plans import PlanComparison
from millrace.analysis.variables import shown_values
from millrace.model.observations import Counters

# A setting that is known to affect what grew says more than what moved. A build, and a setting that
# may cost CPU time like all else, say as much only where their own counters or functions grew. What
# the experiment varies says more than what differs besides.
_OPTION, _VAGUE_OPTION, _BUILD, _VAGUE_BUILD = 2.0, 0.8, 1.3, 0.4
_SPARES, _SOLE, _TABLES = 2.8, 9.0, 0.4
_CONFIGURATION, _VARIED, _NOT_VARIED = 1.0, 1.5, 0.3
_GREW = 1.05  # times as many of a counter, for it to have grown
_SURE = 0.5  # certainty from which on own evidence makes a setting likely
_LARGE = 0.1  # of the difference, for what made less than half of it to be worth a sentence
_HALF = 0.5
_PAGE_FAULT_US = 20.0  # the most that one takes

_MOST_SENTENCES = 3
_MOST_TABLES = 3
_COLLATIONS = "character_sets"  # the functions that compare text

Values = Mapping[str, tuple[str | None, str | None]]
Names = Mapping[str, tuple[str | None, str | None]]


def options(evidence: Evidence) -> Iterator[Finding]:
    """Yield settings that cost more on the worse side, can have acted, and may explain what grew.

    Those that can have made less than half of the difference are left out, unless what they are
    known to affect grew for certain.
    """
    better, worse = evidence.better.settings, evidence.worse.settings
    named = False
    for topic in known().topic:
        dearer = [each for each in topic.settings if each.is_dearer(better, worse)]
        if not dearer or not grew(evidence.better, evidence.worse, topic):
            continue
        both = (evidence.a, evidence.b)
        if not can_act(both, evidence.plans, topic, evidence.group_growth_us):
            continue
        found = _option(evidence, topic, dearer)
        if found is not None:
            named |= not found.settings.keys().isdisjoint(evidence.varied)
            yield found
    if len(evidence.varied) > 1 and not named:
        yield _configuration(evidence)


def _option(evidence: Evidence, topic: Topic, dearer: Sequence[Setting]) -> Finding | None:
    us, consequence = _claim(evidence, topic)
    if topic.acts.statements is not None:
        us = min(us, evidence.growth_in(topic.acts.statements)[0])
    most_us = most_of(evidence, topic)
    waits = evidence.growth_of(topic.waits) > 0
    own = _has_own_evidence(evidence, topic)
    may_be_most = most_us >= _HALF * evidence.size_us
    if us <= 0 or (not may_be_most and not ((own or waits) and us >= _LARGE * evidence.size_us)):
        return None
    values = values_of(evidence.a, evidence.b, dearer)
    varied = not values.keys().isdisjoint(evidence.varied)
    certainty = topic.certainty * max(each.certainty for each in dearer)
    is_likely = varied or certainty == 1 or (own and certainty >= _SURE)
    weight = _OPTION if is_likely or waits else _VAGUE_OPTION
    if topic.spares:
        weight = _SPARES
    elif not (_has_signs(evidence, topic) and is_likely):
        weight *= certainty
    if evidence.varied:
        weight *= _VARIED if varied else _NOT_VARIED
    return Finding(
        "option",
        topic.name,
        settings_text(evidence.a, evidence.b, dearer),
        us,
        consequence=consequence,
        weight=weight,
        most_us=most_us,
        evidence=tuple(amounts(evidence.a, evidence.b, topic, evidence.noun)),
        settings=values,
        names=names_of(evidence.a, evidence.b, dearer),
        certainty=Certainty.LIKELY if is_likely else Certainty.POSSIBLE,
        may_be_most=may_be_most,
    )


def only_varied(evidence: Evidence) -> Iterator[Finding]:
    """Yield the option or factor that alone differs in the experiment: it is the cause."""
    if len(evidence.varied) != 1:
        return
    ((name, (a, b)),) = evidence.varied.items()
    better, worse = evidence.better.settings, evidence.worse.settings
    with_it = [
        (topic, each) for topic in known().topic for each in topic.settings if name in each.names
    ]
    dearer = [(topic, each) for topic, each in with_it if each.is_dearer(better, worse)]
    acting = [pair for pair in dearer if grew(evidence.better, evidence.worse, pair[0])]
    topic, setting = next(iter([*acting, *dearer, *with_it]), (None, None))
    shown_a, shown_b = shown_values(a, b)
    clause = f"{name} is {shown_a} in A and {shown_b} in B, and nothing else differs"
    if topic is not None and setting is not None and dearer:
        clause = f"{clause}: {setting.does}"
    parts = [key for key, us in evidence.growth_us.items() if us]
    yield Finding(
        "option",
        name if topic is None else topic.name,
        clause,
        evidence.size_us,
        consequence=listed(evidence.growth_texts(parts)),
        weight=_SOLE,
        evidence=()
        if topic is None
        else tuple(amounts(evidence.a, evidence.b, topic, evidence.noun)),
        settings=evidence.varied,
        certainty=Certainty.SHOWN,
    )


def _configuration(evidence: Evidence) -> Finding:
    """Return all that the experiment varies as one cause, where no topic of it is suspected."""
    shown = {name: shown_values(*both) for name, both in evidence.varied.items()}
    texts = [f"{name} is {a} in A and {b} in B" for name, (a, b) in shown.items()]
    more = texts[_MOST_SENTENCES:]
    few = [*texts[:_MOST_SENTENCES], *([f"{len(more)} more options"] if more else [])]
    parts = [key for key, us in evidence.growth_us.items() if us]
    return Finding(
        "option",
        "configuration",
        f"{listed(few)}, and nothing else differs",
        evidence.size_us,
        consequence=listed(evidence.growth_texts(parts)),
        weight=_CONFIGURATION,
        settings=evidence.varied,
        certainty=Certainty.LIKELY,
    )


def collations(evidence: Evidence) -> Iterator[Finding]:
    """Yield tables whose text is compared by other collations, where the server ran longer."""
    found = unlike_collations(evidence.a, evidence.b)
    group_us = evidence.group_growth_us.get(_COLLATIONS, 0.0)
    us = group_us or (0.0 if evidence.groups else evidence.growth_of(["cpu_user"]))
    if found and us > 0:
        yield Finding(
            "tables",
            "collation of tables",
            collations_text(found),
            evidence.with_queue(us),
            consequence=f"{us_text(us)} {evidence.more} on CPU in user code",
            weight=_OPTION if group_us else _TABLES,
            certainty=Certainty.LIKELY if group_us else Certainty.POSSIBLE,
        )


def unlike_collations(a: SideEvidence, b: SideEvidence) -> Mapping[str, tuple[str, str]]:
    """Return the collations of the tables that have others in A and B, by table."""
    of_a, of_b = a.collations or {}, b.collations or {}
    return {
        table: (listed(of_a[table]), listed(of_b[table]))
        for table in of_a
        if table in of_b and of_a[table] != of_b[table]
    }


def collations_text(found: Mapping[str, tuple[str, str]]) -> str:
    """Return text such as ``text of user and firm is compared by X in A and by Y in B``."""
    tables: dict[tuple[str, str], list[str]] = {}
    for table, both in found.items():
        tables.setdefault(both, []).append(table)
    (a, b), first = max(tables.items(), key=lambda item: len(item[1]))
    more = len(found) - _MOST_TABLES
    names = [*first[:_MOST_TABLES], *([f"{more} more tables"] if more > 0 else [])]
    return f"text of {listed(names)} is compared by {a} in A and by {b} in B"


def builds(evidence: Evidence) -> Iterator[Finding]:
    """Yield the differences between the builds that may affect the parts that grew."""
    for fact in known().build:
        a, b = _fact(evidence.a, fact), _fact(evidence.b, fact)
        if a is None or b is None or a == b:
            continue
        if not can_act((evidence.a, evidence.b), evidence.plans, fact, evidence.group_growth_us):
            continue
        us, consequence = _claim(evidence, fact)
        if us <= 0:
            continue
        values: Values = {fact.name: (a, b)}
        shown_a, shown_b = shown_values(a, b)
        is_likely = _has_own_evidence(evidence, fact)
        yield Finding(
            "build",
            fact.name,
            f"{fact.name} is {shown_a} in A and {shown_b} in B: {fact.does}",
            us,
            consequence=consequence,
            weight=_BUILD if is_likely else _VAGUE_BUILD,
            most_us=most_of(evidence, fact),
            settings=values,
            certainty=Certainty.LIKELY if is_likely else Certainty.POSSIBLE,
        )


def _has_own_evidence(evidence: Evidence, topic: Topic) -> bool:
    """Return whether functions or counters of a topic's own grew, not only parts of the time."""
    if any(evidence.group_growth_us.get(name) for name in topic.groups):
        return True
    return bool(topic.grows or topic.spares) or _has_signs(evidence, topic)


def _has_signs(evidence: Evidence, topic: Topic) -> bool:
    """Return whether counters that are a sign of a topic grew.

    Page faults are a sign only where there are enough of them to take half of the CPU time.
    """
    least_us = _HALF * (evidence.growth_of(CPU) or evidence.size_us)
    for name in topic.signs:
        few, many = (side.own_counters(name) for side in (evidence.better, evidence.worse))
        if few is None or many is None or many <= _GREW * few:
            continue
        if name != PAGE_FAULTS or (many - few) * _PAGE_FAULT_US >= least_us:
            return True
    return False


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
    """Return the CPU time that a topic may have cost: its functions', else all that grew."""
    grown_us = evidence.growth_of(topic.cpu)
    growth = evidence.group_growth_us
    if names := [name for name in topic.groups if name in growth]:
        us = math.fsum(growth[name] for name in names)
        largest_first = sorted(names, key=lambda name: -growth[name])
        purposes = listed([evidence.group_title(name) for name in largest_first])
        return us, f"{us_text(us)} {evidence.more} of CPU in functions for {purposes}"
    if not grown_us or (evidence.groups and topic.groups):
        return 0.0, ""
    where = "" if topic.cpu == CPU else " in user code"
    return grown_us, f"{us_text(grown_us)} {evidence.more} on CPU{where}"


def most_of(evidence: Evidence, topic: Topic) -> float:
    """Return an upper bound of a topic's share in the difference.

    All of its parts count at the upper ends of their intervals; the queue for CPUs counts by the
    topic's share of the CPU time that grew. So do the statements in which it acts.
    """
    cpu_us = _most_cpu(evidence, topic)
    most_us = evidence.growth_at_most(topic.waits) + cpu_us
    all_cpu_us = evidence.growth_of(CPU) or evidence.growth_at_most(CPU)
    if all_cpu_us and "runnable" not in topic.waits:
        most_us += evidence.growth_at_most(["runnable"]) * min(cpu_us / all_cpu_us, 1.0)
    if topic.acts.statements is not None:
        most_us = min(most_us, evidence.growth_in(topic.acts.statements)[1])
    return min(most_us, evidence.size_us)


def _most_cpu(evidence: Evidence, topic: Topic) -> float:
    """Return a bound of the CPU time that a topic made: its functions', where there is a profile.

    A thread that waits more needs more CPU time everywhere, for context switches and cold caches.
    """
    if evidence.growth_of(topic.waits):
        return evidence.growth_at_most(CPU)
    if evidence.groups and topic.groups:
        return evidence.groups_growth_at_most(topic.groups)
    return evidence.growth_at_most(topic.cpu)


def values_of(a: SideEvidence, b: SideEvidence, chosen: Sequence[Setting]) -> Values:
    """Return the values of settings in A and B by B's option: A's under its name where B lacks it.

    A computed one has the values that this option must have.
    """
    found = {}
    for each in chosen:
        name, has_it = _option_name(each, a, b)
        of_a, of_b = each.value(a.settings), each.value(b.settings)
        found[name] = (
            each.option_value(of_a, has_it.settings),
            each.option_value(of_b, has_it.settings),
        )
    return found


def _option_name(setting: Setting, a: SideEvidence, b: SideEvidence) -> tuple[str, SideEvidence]:
    """Return the name of a setting in B, else in A, and the side that has it."""
    for side in (b, a):
        if (name := setting.name_in(side.settings)) is not None:
            return name, side
    return setting.names[0], b


def names_of(a: SideEvidence, b: SideEvidence, chosen: Sequence[Setting]) -> Names:
    """Return the names in A and B of settings that one of them has under another name, or lacks."""
    found = {}
    for each in chosen:
        name, _ = _option_name(each, a, b)
        own = (each.name_in(a.settings), each.name_in(b.settings))
        if own != (name, name) and each.dearer != "set":
            found[name] = own
    return found


def settings_text(a: SideEvidence, b: SideEvidence, chosen: Sequence[Setting]) -> str:
    """Return text such as ``log_bin is OFF in A and ON in B: each ...``, by what settings do."""
    by_effect: dict[str, list[str]] = {}
    for each in chosen:
        by_effect.setdefault(each.does, []).append(_difference_text(each, a, b))
    texts = [f"{listed(texts)}: {does}" for does, texts in by_effect.items()]
    more = [text for texts in list(by_effect.values())[_MOST_SENTENCES:] for text in texts]
    return "; ".join([*texts[:_MOST_SENTENCES], *more])


def _difference_text(setting: Setting, a: SideEvidence, b: SideEvidence) -> str:
    shown_a, shown_b = shown_values(setting.value(a.settings), setting.value(b.settings))
    in_a, in_b = (setting.name_in(side.settings) for side in (a, b))
    if setting.title:
        return f"{setting.title} is {shown_a} in A ({in_a}) and {shown_b} in B ({in_b})"
    if in_a == in_b or setting.dearer == "set":
        return f"{in_b or in_a or setting.names[0]} is {shown_a} in A and {shown_b} in B"
    if in_a is None:
        return f"{in_b} is {shown_b} in B, and A, which does not have it, works as with {shown_a}"
    if in_b is None:
        return f"{in_a} is {shown_a} in A, and B, which does not have it, works as with {shown_b}"
    return f"{in_a} is {shown_a} in A and {in_b} is {shown_b} in B"


def grew(better: SideEvidence, worse: SideEvidence, topic: Topic) -> bool:
    """Return whether counters differ as they must where a topic acted; True where it has none."""
    return _counts_more(better, worse, topic.grows) and _counts_more(worse, better, topic.spares)


def _counts_more(less: SideEvidence, more: SideEvidence, names: Sequence[str]) -> bool:
    if not names:
        return True
    few, many = (side.own_counters(*names) for side in (less, more))
    return few is not None and many is not None and many > _GREW * few


def can_act(
    sides: tuple[SideEvidence, SideEvidence],
    plans: Sequence[PlanComparison],
    topic: Topic,
    moved: Collection[str],
) -> bool:
    """Return whether a topic can have acted in these operations: what it acts by was counted.

    ``moved`` names the groups of functions that need more CPU time on one side.
    """
    if topic.by_plan and not any(name in moved for name in topic.groups):
        known_plans = {plan.same for plan in plans} - {None}
        if known_plans == {True}:
            return False
    if topic.clients > max(side.clients for side in sides):
        return False
    acts = topic.acts
    if acts.every:
        return True
    if acts.collations:
        return any(side.collations is None for side in sides)
    counts = [side.own_counters(*acts.counters) for side in sides]
    return any(count is not None and count >= acts.per_operation for count in counts) or any(
        words in said for said in _said_by_plans(plans) for words in acts.plans
    )


def _said_by_plans(plans: Sequence[PlanComparison]) -> Iterator[str]:
    """Yield EXPLAIN's statements about steps other than how tables are read."""
    for plan in plans:
        for side in (plan.a, plan.b):
            for row in () if side is None else side.rows:
                yield from (str(said) for name, said in row.items() if name.lower() == "extra")


def counts_more_of(topic: Topic, less: SideEvidence, more: SideEvidence) -> bool:
    """Return whether one side counts more of what shows that a topic acted."""
    counted = ((_amount(less, name)[0], _amount(more, name)[0]) for name in topic.amounts)
    return bool(topic.grows or topic.spares) or any(
        few is not None and many is not None and many > _GREW * few for few, many in counted
    )


def amounts(a: SideEvidence, b: SideEvidence, topic: Topic, noun: str) -> Iterator[str]:
    """Yield what the servers counted of a topic, for an operation of each side."""
    names = dict.fromkeys((*topic.grows, *topic.signs, *topic.amounts))
    for name in names:
        (of_a, what_a), (of_b, what_b) = (_amount(side, name) for side in (a, b))
        if of_a is not None and of_b is not None and (of_a or of_b):
            what = what_b if of_b else what_a
            yield f"{what} per {noun}: {count_text(of_a)} in A, {count_text(of_b)} in B"


def _amount(side: SideEvidence, name: str) -> tuple[float | None, str]:
    """Return an operation's count of a neutral counter, else of one of the server's own."""
    if name in Counters.model_fields:
        return side.neutral_counter(name), side.own_name(name)
    return side.own_counters(name), "page faults of the server" if name == PAGE_FAULTS else name


def _fact(side: SideEvidence, fact: BuildFact) -> str | None:
    if side.instance is None:
        return None
    if fact.variable is not None:
        return side.instance.effective.get(fact.variable)
    if fact.fact is None:
        return None
    value = getattr(side.instance.server.build, fact.fact, None)
    return None if value is None else str(value)
