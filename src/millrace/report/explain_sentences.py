"""An explanation in words: how much more an operation takes, and what of it goes where."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Sequence

from millrace.analysis.account import DifferenceLine
from millrace.analysis.explanation import Disturbance, Explained, Explanation, Lack
from millrace.analysis.profiles import GroupDifference
from millrace.analysis.waits import Coverage
from millrace.report.explain_tables import is_sure, latencies_us
from millrace.report.formatting import counted, figure_text, fixed_text, percent_text, us_decimals
from millrace.report.statement_tables import statement_sentence
from millrace.stats import MeanEstimate

_MATTERS = 0.05  # of a difference; smaller parts of it are summed up
_MOST = 5  # parts that a sentence names
_UNCORRECTED = "; the interval is not corrected for the number of rows looked at"
_UNEXPLAINED = frozenset(("other", "kernel_other", "unnamed"))  # groups that explain nothing


def title(explanation: Explanation) -> str:
    """``mysql-9.7.4 against mysql-5.6.24 (insert · clients 16)``."""
    held = f" ({explanation.group})" if explanation.group else ""
    return f"{explanation.candidate} against {explanation.base}{held}"


def command(explanation: Explanation) -> str:
    """The command that explains this comparison alone."""
    factors = {factor["name"]: factor["levels"] for factor in explanation.run.spec["factors"]}
    words = ["millrace", "explain", explanation.run.id]
    if explanation.factor != explanation.run.spec["compare"]["factor"]:
        words += ["--factor", explanation.factor]
    words += ["--base", str(explanation.a.level), "--candidate", str(explanation.b.level)]
    for name, level in explanation.held.items():
        if len(factors[name]) > 1:
            words += ["--where", f"{name}={level}"]
    return shlex.join(words)


def answer(explanation: Explanation) -> list[str]:
    """What is different, a sentence each: first the one that says more about the other."""
    latency, cpu = [_latency(explanation), _statement(explanation)], _cpu(explanation)
    sentences = [*latency, cpu] if _is_about_waiting(explanation) else [cpu, *latency]
    found = [sentence for sentence in sentences if sentence]
    if explanation.unequal:
        found.append(f"The two did not do the same work: {explanation.unequal}.")
    return found or [_nothing(explanation)]


def account_notes(explanation: Explanation) -> list[str]:
    """What to know about an account, a clause each."""
    sides = (explanation.a.account, explanation.b.account)
    notes = [note for side in sides if side is not None for note in side.notes]
    found = explanation.differences
    if found is not None:
        absent = [line.title for line in found.lines if not line.a_us and not line.b_us]
        notes += [f"never seen, in neither: {', '.join(absent)}"] if absent else []
        unknown = ", ".join(found.unknown)
        notes += [f"not measured, and in what is unaccounted: {unknown}"] if unknown else []
    return list(dict.fromkeys(notes))


def coverage_text(coverage: Coverage) -> str:
    """What the server's own instruments cover of the time in which its threads did not get on."""
    share = coverage.share
    if share is None:
        return "no thread was blocked or spun"
    whole = f"{figure_text(coverage.blocked_us)} µs blocked"
    if coverage.spinning_us is not None:
        whole += f" and {figure_text(coverage.spinning_us)} µs spinning"
    waits = figure_text(coverage.waits_us)
    if share > 1:
        return (
            f"instrumented waits, {waits} µs, are more than all of {whole}: timers also run while "
            f"threads have no CPU, and waits enclose others"
        )
    return f"instrumented waits, {waits} µs, cover {percent_text(share)} of {whole}"


def disturbance_texts(explanation: Explanation) -> list[str]:
    """What disturbed the host, with the trials it did."""
    return [
        f"{_side(explanation, each)}, {'profiled ' if each.profiled else ''}block "
        f"{each.block + 1}: {each.clause}"
        for each in explanation.disturbances
    ]


def missing_rows(explanation: Explanation) -> list[tuple[str, str, str]]:
    """What could not be seen, where, and what to do about it; what both sides lack once."""
    found: dict[tuple[str, str, str], list[Lack]] = {}
    for lack in explanation.missing:
        found.setdefault((lack.observer, lack.what, lack.remedy), []).append(lack)
    return [
        (
            f"{observer}: {what}",
            "; ".join(f"{_side(explanation, e)}, {counted(e.trials, 'trial')}" for e in lacks),
            remedy,
        )
        for (observer, what, remedy), lacks in found.items()
    ]


def is_observed(explanation: Explanation) -> bool:
    """Whether anything was seen of either side beside its throughput."""
    trials = (*explanation.a.trials, *explanation.b.trials)
    seen = any(trial.attempt.observations for trial in trials)
    return seen or bool(explanation.a.profiled or explanation.b.profiled)


def _nothing(explanation: Explanation) -> str:
    """Why there is nothing to say: no block has both, or nothing of use was seen."""
    sides = (explanation.a, explanation.b)
    blocks = [{trial.block + 1 for trial in (*side.trials, *side.profiled)} for side in sides]
    if blocks[0] & blocks[1]:
        return f"Nothing that was observed tells {explanation.candidate} from {explanation.base}."
    there = "; ".join(
        f"{side.label}: {_blocks(of)}" for side, of in zip(sides, blocks, strict=True)
    )
    return f"Not compared: no block has both ({there}); `millrace run` with the same file goes on."


def _blocks(numbers: Collection[int]) -> str:
    if not numbers:
        return "no block"
    noun = "block" if len(numbers) == 1 else "blocks"
    return f"{noun} {', '.join(map(str, sorted(numbers)))}"


def _latency(explanation: Explanation) -> str:
    found = explanation.differences
    if found is None:
        return ""
    a_us, b_us = latencies_us(found)
    decimals = us_decimals(max(a_us, b_us))
    in_b, in_a = (_within(e, explanation.factor) for e in (explanation.b, explanation.a))
    subject = f"A {explanation.noun} takes {fixed_text(b_us, decimals)} µs {in_b}, "
    if not is_sure(found.latency):
        return (
            f"{subject}no longer or shorter than {in_a} as far as these blocks "
            f"can tell: {_with_interval(found.latency, decimals)} µs."
        )
    text = (
        f"{subject}{_amount(found.latency.mean, decimals)} µs {_longer(found.latency.mean)} than "
        f"{in_a}{_by_chance(found.latency)}"
    )
    parts = _parts([(line.title, line.difference.mean, _doubt(line)) for line in found.lines],
                   found.latency.mean, decimals)  # fmt: skip
    left = fixed_text(found.unaccounted.difference.mean, decimals, signed=True)
    return f"{text}: {parts}; {left} unaccounted."


def _statement(explanation: Explanation) -> str:
    found = explanation.differences
    if found is None or not is_sure(found.latency):
        return ""
    return statement_sentence(explanation.statement_differences, explanation.noun)


def _cpu(explanation: Explanation) -> str:
    """``9.7.4 needs 14.2 µs more of server CPU per row than 5.6.24: parsing +3.1, ...``"""
    row = next((row for row in explanation.efficiency if row.key == "cpu_server"), None)
    profile = explanation.profile
    total = row.difference if row is not None else profile.cpu if profile is not None else None
    if total is None:
        return ""
    sizes = [side.mean for side in (row.a, row.b) if side is not None] if row is not None else []
    decimals = us_decimals(max([*sizes, abs(total.mean)]))
    base, subject = explanation.base, f"{explanation.candidate} needs "
    if not isinstance(explanation.b.level, str):
        base = _within(explanation.a, explanation.factor)
        within = _within(explanation.b, explanation.factor)
        subject = f"{within[:1].upper()}{within[1:]} the server needs "
    tested = row is not None and row.adjusted_p is not None
    if not is_sure(total) or (tested and row is not None and not row.significant):
        doubt = _UNCORRECTED if is_sure(total) else ""
        return (
            f"{subject}no more or less server CPU per {explanation.noun} than {base} "
            f"as far as these blocks can tell: {_with_interval(total, decimals)} µs{doubt}."
        )
    text = (
        f"{subject}{_amount(total.mean, decimals)} µs {_more(total.mean)} of server CPU per "
        f"{explanation.noun} than {base}{_by_chance(total)}"
    )
    if profile is None:
        return f"{text}; without profiles of both it is not known in which functions."
    named = [group for group in profile.groups if group.name not in _UNEXPLAINED]
    parts = _parts([(g.title, g.difference.mean, _group_doubt(g)) for g in named], total.mean,
                   decimals)  # fmt: skip
    left = total.mean - math.fsum(group.difference.mean for group in named)
    return f"{text}: {parts}; {fixed_text(left, decimals, signed=True)} unexplained."


def _parts(parts: Sequence[tuple[str, float, str]], whole: float, decimals: int) -> str:
    """``parsing +3.1, redo logging +2.4, all others −0.2``: (name, µs, doubt), largest first."""
    ordered = sorted(parts, key=lambda part: -abs(part[1]))
    named = [part for part in ordered if abs(part[1]) >= _MATTERS * abs(whole)][:_MOST]
    rest = math.fsum(us for _, us, _ in ordered[len(named) :])
    texts = [f"{name} {fixed_text(us, decimals, signed=True)}{doubt}" for name, us, doubt in named]
    if len(ordered) > len(named):
        others = "all others" if named else "many small parts"
        texts.append(f"{others} {fixed_text(rest, decimals, signed=True)}")
    # Some names have commas of their own.
    return ("; " if any(", " in text for text in texts) else ", ").join(texts)


def _is_about_waiting(explanation: Explanation) -> bool:
    """Whether most of the difference in latency is not CPU time."""
    found = explanation.differences
    if found is None:
        return False
    ran = math.fsum(
        line.difference.mean for line in found.lines if line.key in ("cpu_user", "cpu_system")
    )
    return abs(ran) < 0.5 * abs(found.latency.mean)


def _doubt(line: DifferenceLine) -> str:
    return "" if line.significant or line.adjusted_p is None else " (not sure)"


def _group_doubt(group: GroupDifference) -> str:
    return "" if group.significant or group.adjusted_p is None else " (not sure)"


def _by_chance(estimate: MeanEstimate) -> str:
    return " (one block: it may be chance)" if estimate.low is None else ""


def _within(side: Explained, factor: str) -> str:
    """``in mysql-9.7.4``, ``with 16 clients``, ``with tls on``."""
    if isinstance(side.level, str):
        return f"in {side.label}"
    if factor == "clients":
        return f"with {counted(int(side.level), 'client')}"
    return f"with {side.label}"


def _with_interval(estimate: MeanEstimate, decimals: int) -> str:
    """``+0.3 (−1.2 to +1.8)``."""
    mean = fixed_text(estimate.mean, decimals, signed=True)
    low, high = (
        "" if end is None else fixed_text(end, decimals, signed=True)
        for end in (estimate.low, estimate.high)
    )
    return f"{mean} ({low} to {high})"


def _amount(us: float, decimals: int) -> str:
    return fixed_text(abs(us), decimals)


def _more(us: float) -> str:
    return "more" if us >= 0 else "less"


def _longer(us: float) -> str:
    return "longer" if us >= 0 else "shorter"


def _side(explanation: Explanation, of: Disturbance | Lack) -> str:
    return explanation.base if of.side == "A" else explanation.candidate
