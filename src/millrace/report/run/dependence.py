"""The factors on which differences depend, in words and in a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.analysis.compare import model
from millrace.analysis.compare.effects import main_terms
from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.verdict import margin_text
from millrace.levels import Level, factor_text, level_text
from millrace.quantities import counted
from millrace.report.common import formatting
from millrace.report.common.tables import Column, Row, Section, Table, text_columns
from millrace.report.common.wording import listed
from millrace.report.run.units import UNITS_OF_TIME
from millrace.stats.effects import Effect

TITLE = "What the difference depends on"
_FEW = 3  # at most this many levels are named, each with its size
_ANY_SIZE = 1.0  # what may be twice as fast or half as fast is not known at all


@dataclass(frozen=True)
class DependenceText:
    """A sentence or two for each candidate, and the table."""

    sentences: tuple[str, ...]
    table: Table


def dependence_part(analysis: model.RunAnalysis) -> DependenceText | None:
    """Describe what differences depend on; None where too few comparisons say anything."""
    found = analysis.dependences
    if not found:
        return None
    said = tuple(dependence_text(each, analysis) for each in found)
    return DependenceText(said, _table(found, analysis))


def dependence_text(dependence: model.Dependence, analysis: model.RunAnalysis) -> str:
    """Say what a candidate's difference depends on, and no more than is shown."""
    terms = main_terms(dependence)
    said = [_of_term(term, dependence, analysis) for term in terms]
    if not terms:
        said.append(_of_none(dependence, analysis))
    elif dependence.unexplained:
        said.append("Single comparisons are off this by more than chance explains.")
    if dependence.missing:
        left_out = "is" if dependence.missing == 1 else "are"
        comparisons = counted(dependence.planned, "comparison")
        said.append(f"{dependence.missing} of {comparisons} {left_out} left out: too few results.")
    return " ".join(said)


def _of_none(dependence: model.Dependence, analysis: model.RunAnalysis) -> str:
    """Say that no factor is shown to matter: about the same everywhere, or unknown."""
    candidate = level_text(analysis.factor, dependence.candidate)
    word = _word(dependence.verdict, analysis.headline)
    is_different = dependence.verdict in model.DIFFERENCES
    is_everywhere = is_different and dependence.everywhere == dependence.verdict
    size = _size(dependence.overall)
    if dependence.verdict == "equivalent":
        text = f"{candidate} differs by {_change(dependence.overall)} on average"
    elif not is_different:
        so_far = _change(dependence.overall)
        text = f"no difference of {candidate} on average is beyond doubt ({so_far} so far)"
    elif is_everywhere:
        text = f"{candidate} is {word} everywhere, by about {size}"
    else:
        text = f"{candidate} is {word} by {size} on average"
    if dependence.uniform and not dependence.unexplained:
        is_said = is_everywhere or dependence.missing
        text += "" if is_said else ", about as much everywhere"
        return f"{text}: no comparison is off the mean by more than {margin_text(analysis.margin)}."
    *first, last = map(factor_text, dependence.factors)
    either = f"{', '.join(first)} or {last}" if first else last
    text += f"; whether that depends on {either} is not known"
    if dependence.apart_at_most > _ANY_SIZE:
        return f"{text}."
    furthest = formatting.percent_text(dependence.apart_at_most)
    return f"{text}: single comparisons may be off the mean by up to {furthest}."


def _of_term(term: model.Term, dependence: model.Dependence, analysis: model.RunAnalysis) -> str:
    """Return text such as ``mysql-5.7.22 is slower only with log_bin on, by 6.1 %; ...``."""
    candidate, margin = level_text(analysis.factor, dependence.candidate), analysis.margin
    sides = {each: [at for at in term.at if at.verdict == each] for each in model.DIFFERENCES}
    sides = {verdict: at for verdict, at in sides.items() if at}
    others = [at for at in term.at if at.verdict not in model.DIFFERENCES]
    if not sides:
        ends = sorted(term.at, key=lambda at: at.here.ratio)
        low, high = (f"{_change(at.here)} {where(at.levels)}" for at in (ends[0], ends[-1]))
        depends = f"The difference of {candidate} depends on {_listed_factors(term.factors)}"
        if differing := _differing(term.at):
            return f"{depends}, from {low} to {high} on average, where {differing}."
        return (
            f"{depends}, from {low} to {high}, though none beyond {margin_text(margin)} is shown "
            "at any of them."
        )
    differing = _differing(others)
    elsewhere_none = all(at.verdict == "equivalent" for at in others) and not differing
    parts = []
    for verdict, at in sides.items():
        word = _word(verdict, analysis.headline)
        if others and elsewhere_none and len(sides) == 1:
            word += " only"
        elif not others and dependence.everywhere == verdict:
            word += " everywhere:"
        parts.append(f"{word} {_places(at, term)}")
    text = f"{candidate} is {', and '.join(parts)}"
    if others:
        limit = margin_text(margin)
        within, none = f"the difference is within {limit}", f"none beyond {limit} is shown"
        if differing:
            none = f"{none} on average, though {differing}"
        text += f"; elsewhere {within if elsewhere_none else none}"
    return f"{text}."


def _differing(at: Sequence[model.LevelsEffect]) -> str:
    """Return text such as ``3 single comparisons differ``; empty where none does."""
    number = sum(each.differing for each in at)
    if not number:
        return ""
    return f"{counted(number, 'single comparison')} {'differs' if number == 1 else 'differ'}"


def _places(at: Sequence[model.LevelsEffect], term: model.Term) -> str:
    """Return text such as ``at 1 client, by 20.1 %``; of many levels, their number and the ends."""
    if len(at) == 1:
        return f"{where(at[0].levels)}, by {_size(at[0].here)}"
    if len(at) <= _FEW:
        return listed([f"{where(each.levels)} by {_size(each.here)}" for each in at])
    by_size = sorted(at, key=lambda each: max(each.here.ratio, 1 / each.here.ratio))
    least, most = (f"{_size(each.here)} {where(each.levels)}" for each in (by_size[0], by_size[-1]))
    kind = "levels" if len(term.factors) == 1 else "combinations"
    return (
        f"at {len(at)} of {len(term.at)} {kind} of {_listed_factors(term.factors)}, by {least} to "
        f"{most}"
    )


def where(levels: Mapping[str, Level]) -> str:
    """Return text such as ``at 1 client``, ``in point-query at 8 clients``, ``with tls on``."""
    return " ".join(
        f"at {counted(level, 'client')}"
        if factor == "clients" and isinstance(level, int)
        else f"{'in' if factor == 'test' else 'with'} {level_text(factor, level)}"
        for factor, level in levels.items()
    )


def _word(verdict: model.Verdict, metric: Metric) -> str:
    is_speed = metric.unit.endswith("/s") or metric.unit in UNITS_OF_TIME
    worse, better = ("slower", "faster") if is_speed else ("worse", "better")
    return worse if verdict == "regression" else better


def _size(effect: Effect) -> str:
    return formatting.size_text(effect.ratio)


def _change(effect: Effect) -> str:
    return formatting.difference_text(effect.ratio)


def _listed_factors(factors: Sequence[str]) -> str:
    return listed([factor_text(factor) for factor in factors])


def _table(found: Sequence[model.Dependence], analysis: model.RunAnalysis) -> Table:
    """Return a row for each candidate's mean and its terms; of a pair, levels that stand out."""
    columns = (
        *text_columns("where"), Column("ratio"),
        Column(f"{found[0].confidence * 100:.3g} % interval"),
        Column("apart from the rest", drop=1), *text_columns("verdict"),
    )  # fmt: skip
    sections = []
    for each in found:
        rows = [_row("on average", each.overall, formatting.MISSING, each.verdict)]
        for term in main_terms(each):
            rows += [
                _row(where(at.levels), at.here, _change(at.apart), at.verdict)
                for at in term.at
                if at.stands_out or len(term.factors) == 1
            ]
        sections.append(Section(level_text(analysis.factor, each.candidate), tuple(rows)))
    return Table(TITLE, columns, tuple(sections))


def _row(place: str, effect: Effect, apart: str, verdict: model.Verdict) -> Row:
    interval = formatting.interval_text(effect.low, effect.high)
    return Row((place, formatting.ratio_text(effect.ratio), interval, apart, verdict), verdict)
