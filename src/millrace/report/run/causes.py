"""The first likely cause of a comparison, in a few words, where one is known."""

import math
from collections import Counter
from collections.abc import Sequence

from millrace.analysis.certainty import Certainty
from millrace.analysis.compare.model import DIFFERENCES, Comparison, FirstCause, RunAnalysis
from millrace.analysis.variables import shown_values
from millrace.levels import level_text
from millrace.report.common.formatting import fixed_text, us_decimals, whole_percent_text
from millrace.report.common.wording import listed, short_symbol

_MOST_SETTINGS = 2
_MOST_CAUSES = 3
_WHOLE = 0.995  # of the difference
_MOST_FUNCTIONS = 2
_MOST_OF_IT = 0.5


def cause_text(comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return text such as ``likely cause: binary log (log_bin is ON, in mysql-5.6.24 OFF)``.

    Empty where none is known, and where the two neither differ nor look as if they did.
    """
    found = _cause(comparison, analysis)
    if found is None:
        return ""
    values = _settings(found, comparison, analysis)
    named = f"{_named(found)}{f' ({values})' if values else ''}"
    return f"{named}{_functions(found, _MOST_FUNCTIONS)}"


def cause_name(comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return text such as ``likely cause: plan, mostly in row_search_mvcc (+8.1 µs, 57 %)``."""
    found = _cause(comparison, analysis)
    return "" if found is None else f"{_named(found)}{_functions(found, 1)}"


def _named(found: FirstCause) -> str:
    """Return text such as ``cause shown by an experiment: binary log, 65 % of the difference``."""
    share = found.share
    of_it = "" if share is None or share >= _WHOLE else f", {share * 100:.0f} % of the difference"
    return f"{_certainty(found)}: {found.about}{of_it}"


def _functions(found: FirstCause, most: int) -> str:
    """Return text such as ``, mostly in row_search_mvcc (+8.1 µs of CPU, 57 %)``."""
    named = [
        f"{short_symbol(name)} ({fixed_text(us, us_decimals(abs(us)), signed=True)} µs of CPU, "
        f"{whole_percent_text(share)})"
        for name, (us, share) in list(found.functions.items())[:most]
    ]
    if not named:
        return ""
    whole = math.fsum(share for _, share in list(found.functions.values())[:most])
    return f", {'mostly' if whole >= _MOST_OF_IT else 'partly'} in {listed(named)}"


def causes_counted(comparisons: Sequence[Comparison], analysis: RunAnalysis) -> str:
    """Return text such as ``binary log (8) and plan (2)``: the most frequent causes."""
    found = Counter(
        cause.about for each in comparisons if (cause := _cause(each, analysis)) is not None
    )
    named = [f"{about} ({count})" for about, count in found.most_common(_MOST_CAUSES)]
    return listed(named) if named else ""


def _cause(comparison: Comparison, analysis: RunAnalysis) -> FirstCause | None:
    looks_different = comparison.undecided and (
        comparison.is_beyond(analysis.margin)
        or (comparison.estimate is not None and comparison.estimate.excludes_1)
    )
    differs = looks_different or comparison.verdict in DIFFERENCES
    # Explanations are of the time of an operation, not of a percentile or of CPU time.
    explained = [each.name for each in (analysis.headline, analysis.time) if each is not None]
    if not differs or comparison.metric.name not in explained:
        return None
    return analysis.causes.get((comparison.base_id, comparison.candidate_id))


def _certainty(found: FirstCause) -> str:
    if found.certainty == Certainty.SHOWN:
        return "cause shown by an experiment"
    return "likely cause" if found.certainty == Certainty.LIKELY else "possible cause"


def _settings(found: FirstCause, comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return text such as ``log_bin is ON, in mysql-5.6.24 OFF``, without the compared factor."""
    factor = analysis.factor.removeprefix("options.")
    base = level_text(analysis.factor, comparison.base)
    texts = [
        _difference(name, shown_values(a, b), found.names.get(name, (name, name)), base)
        for name, (a, b) in found.settings.items()
        if name != factor
    ]
    return "; ".join(texts[:_MOST_SETTINGS])


def _difference(
    name: str, values: tuple[str, str], names: tuple[str | None, str | None], base: str
) -> str:
    (a, b), (of_base, of_candidate) = values, names
    if of_candidate is None:
        return f"{base} has {name} {a}, the other has none"
    if of_base is None:
        return f"{of_candidate} is {b}, {base} has none"
    own = f"{of_base} " if of_base != of_candidate else ""
    return f"{of_candidate} is {b}, in {base} {own}{a}"
