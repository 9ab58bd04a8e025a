"""A search for a change among servers in words: the answer, how far it has come, notes."""

from collections.abc import Iterator

from millrace.analysis.compare.bisection import Bisection, change_found
from millrace.analysis.compare.verdict import margin_text
from millrace.quantities import counted
from millrace.report.common import formatting
from millrace.report.common.tables import Column, Row, Table, plain_table, text_columns
from millrace.report.common.wording import imported_notes
from millrace.report.counts.sentences import comparison_notes, sentence
from millrace.report.counts.tables import difference_text
from millrace.stats.bisection_model import Found, NoChange

_NEARLY_SURE = 0.999
_FUNCTIONS = 3  # that differ most


def answer(found: Bisection) -> str:
    """Say what was found, or how far the search has come."""
    names, metric, step = found.spec.members, found.metric.title, found.step
    after = counted(found.trials, "trial")
    if found.unsteady:
        return f"no answer in {metric}, after {after}: {found.unsteady}"
    if isinstance(step, Found):
        return (
            f"the change is between {names[step.first - 1]} and {_one_of(found, step)}: "
            f"{metric} is {_change(step, after)}"
        )
    if isinstance(step, NoChange):
        return (
            f"no change between {names[0]} and {names[-1]} beyond "
            f"{margin_text(found.spec.margin)}: {metric} is {_change(step, after)}"
        )
    return f"not found yet, after {after}: {likeliest(found)}"


def _one_of(found: Bisection, step: Found) -> str:
    """Return the first server of the new level; those that could not be measured may be it too."""
    names = found.spec.members[step.first : step.last + 1]
    if len(names) == 1:
        return names[0]
    return f"{names[-1]} (or {', '.join(names[:-1])}, which could not be measured)"


def _change(step: Found | NoChange, after: str) -> str:
    interval = formatting.interval_text(step.low, step.high)
    said = f"ratio {interval}; probability {_sure_text(step.probability)}, {after}"
    return f"{formatting.change_text(step.ratio)} ({said})"


def _sure_text(probability: float) -> str:
    """Return a probability as text, below 100 %: no answer is certain."""
    if probability > _NEARLY_SURE:
        return f"above {formatting.percent_text(_NEARLY_SURE)}"
    return formatting.percent_text(probability)


def likeliest(found: Bisection) -> str:
    """Name the likeliest place of the change so far."""
    if found.none is None:
        return "both ends are measured first"
    place = max(range(1, len(found.members)), key=lambda n: found.members[n].probability or 0.0)
    names = found.spec.members
    return (
        f"most likely between {names[place - 1]} and {names[place]} "
        f"({_sure_text(found.members[place].probability or 0.0)}); none at all "
        f"{formatting.percent_text(found.none)}"
    )


def notes(found: Bisection) -> Iterator[str]:
    """Yield the servers that were passed over, with reasons, and what instructions tell."""
    yield from imported_notes(found.run)
    for member in found.members:
        if member.skipped:
            yield f"{member.name} was passed over: {member.skipped}"
    if found.counts is not None and change_found(found) is not None:
        yield sentence(found.counts)
        for function in found.counts.functions[:_FUNCTIONS]:
            yield f"{difference_text(function)} in {function.name} with all that it calls"
        yield from comparison_notes(found.counts)


def members_table(found: Bisection) -> Table:
    """Return a row a server, in the order of the list."""
    titles = (found.metric.unit, "trials", "first of the new level")
    columns = (*text_columns("server"), *map(Column, titles), Column("", numeric=False, drop=1))
    rows = []
    for place, member in enumerate(found.members):
        level = formatting.known_text(
            member.level, lambda value: formatting.value_text(value, found.metric)
        )
        probability = formatting.known_text(member.probability, formatting.percent_text)
        note = mark(found, place) or member.skipped
        rows.append(Row((member.name, level, str(len(member.values)), probability, note)))
    return plain_table(found.metric.title, columns, rows)


def mark(found: Bisection, place: int) -> str:
    """Return the mark of a server: an end of the list, or the change."""
    step = change_found(found)
    if step is not None and place == step.last:
        return "◂ the change"
    return {0: "good", len(found.members) - 1: "bad"}.get(place, "")
