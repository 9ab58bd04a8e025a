"""An explanation in words: how much more an operation takes, and what of it goes where."""

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from millrace.analysis.explain.efficiency import EfficiencyRow
from millrace.analysis.explain.explanation import (
    Disturbance,
    Explanation,
    MissingObservation,
    SideExplanation,
    is_compared,
)
from millrace.analysis.explain.profiles import GroupDifference, LeadingFunction
from millrace.analysis.explain.time_breakdown import BreakdownDifference, DifferenceLine
from millrace.analysis.explain.waits import Coverage
from millrace.levels import is_name, level_value
from millrace.quantities import counted
from millrace.report.common.formatting import (
    figure_text,
    fixed_text,
    percent_text,
    us_decimals,
    whole_percent_text,
)
from millrace.report.common.wording import first_line, listed, short_symbol
from millrace.report.explanation.tables import Labels, interval_text, is_sure, statement_sentence
from millrace.stats.mean import MeanEstimate

_MATTERS = 0.05  # of a difference; smaller parts of it are summed up
_MOST_OF_IT = 0.5
_MOST = 5  # parts that a sentence names
_PERCENT = re.compile(r"(?<![\d.,])(\d+) %")  # of the samples, in what a profile lacks
_LONGEST_HEADING = 20  # characters of a column's
_UNCORRECTED = "is not sure after correction for the number of rows looked at"
_UNEXPLAINED = frozenset(("other", "kernel_other", "unnamed"))  # groups that explain nothing


def title(explanation: Explanation) -> str:
    """Return text such as ``mysql-9.7.4 against mysql-5.6.24 (insert · clients 16)``."""
    held = f" ({explanation.group})" if explanation.group else ""
    return f"{explanation.candidate} against {explanation.base}{held}"


def headings(explanation: Explanation) -> Labels:
    """Return the heads of the columns of A and B, as ``A: 0`` where a factor's name is long."""
    sides = (explanation.a, explanation.b)
    named = all(is_name(explanation.factor, side.level) for side in sides)
    if named or max(len(side.label) for side in sides) <= _LONGEST_HEADING:
        return explanation.base, explanation.candidate
    a, b = (level_value(side.level) for side in sides)
    return f"A: {a}", f"B: {b}"


def command(explanation: Explanation) -> str:
    """Return the command that explains this comparison alone."""
    factors = explanation.run.spec.levels
    words = ["millrace", "explain", explanation.run.id]
    if explanation.factor != explanation.run.spec.compare.factor:
        words += ["--factor", explanation.factor]
    base, candidate = (level_value(side.level) for side in (explanation.a, explanation.b))
    words += ["--base", base, "--candidate", candidate]
    for name, level in explanation.fixed_factors.items():
        if len(factors[name]) > 1:
            words += ["--where", f"{name}={level_value(level)}"]
    return shlex.join(words)


def answer(explanation: Explanation) -> list[str]:
    """Answer what differs, a sentence each: first the one that says more about the other."""
    latency = [_latency(explanation), _statement(explanation)]
    cpu = [_cpu(explanation), functions_sentence(explanation)]
    latency_first = _is_about_waiting(explanation) or not _is_cpu_sure(explanation)
    sentences = [*latency, *cpu] if latency_first else [*cpu, *latency]
    found = [sentence for sentence in sentences if sentence]
    if explanation.unequal:
        found.append(
            f"The two did not do the same work, or too little of it: {explanation.unequal}."
        )
    return found or [_nothing(explanation)]


def breakdown_notes(explanation: Explanation) -> list[str]:
    """List what qualifies a time breakdown, a clause each."""
    sides = (explanation.a.breakdown, explanation.b.breakdown)
    notes = [note for side in sides if side is not None for note in side.notes]
    found = explanation.differences
    if found is not None:
        absent = [line.title for line in found.lines if not line.a_us and not line.b_us]
        notes += [f"never seen, in neither: {', '.join(absent)}"] if absent else []
        unknown = ", ".join(found.unknown)
        notes += [f"not measured, and in what is unaccounted: {unknown}"] if unknown else []
        notes += [*_shared_cpu(explanation, found), *_below_zero(explanation, found)]
    return list(dict.fromkeys(notes))


def coverage_text(coverage: Coverage) -> str:
    """Describe how much of the blocked time the server's own instruments cover."""
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
    """List the disturbances of the host with the trials they hit."""
    return [
        f"{_side(explanation, each)}, {'profiled ' if each.profiled else ''}block "
        f"{each.block + 1}: {each.clause}"
        for each in explanation.disturbances
    ]


def missing_rows(explanation: Explanation) -> list[tuple[str, str, str]]:
    """List what could not be observed, where, and a hint; gaps of both sides share a row."""
    found: dict[tuple[str, str, str], list[MissingObservation]] = {}
    for lack in explanation.missing:
        key = (lack.observer, _PERCENT.sub("", lack.what), lack.hint)
        found.setdefault(key, []).append(lack)
    rows = []
    for (observer, _, hint), lacks in found.items():
        trials = Counter[str]()
        for lack in lacks:
            trials[_side(explanation, lack)] += lack.trials
        where = "; ".join(f"{side}, {counted(number, 'trial')}" for side, number in trials.items())
        rows.append((f"{observer}: {_lacked([lack.what for lack in lacks])}", where, hint))
    return rows


def _lacked(whats: Sequence[str]) -> str:
    """Merge texts that differ in percentages: ``names of f, in 12 % to 36 % of samples``."""
    found = [[int(percent) for percent in _PERCENT.findall(what)] for what in whats]
    ranges = iter([(min(each), max(each)) for each in zip(*found, strict=True)])

    def shown(_: re.Match[str]) -> str:
        low, high = next(ranges)
        return f"{low} %" if low == high else f"{low} % to {high} %"

    return _PERCENT.sub(shown, whats[0])


def _nothing(explanation: Explanation) -> str:
    """Say why there is nothing to say: no block has both, or nothing of use was seen."""
    if is_compared(explanation):
        return f"Nothing that was observed tells {explanation.candidate} from {explanation.base}."
    if explanation.run.spec.counts is not None:
        return "No time was measured: this run counts instructions, and nothing else."
    sides = (explanation.a, explanation.b)
    there = "; ".join(map(_there, sides))
    said = f"Not compared: no block has a finished trial of both ({there})"
    if any(side.waiting for side in sides):
        return f"{said}; `millrace run` with the same file goes on."
    if any(side.failed for side in sides):
        return (
            f"{said}; when the cause is mended, `millrace run` with the same file and "
            "`--retry-failed` tries them again."
        )
    return f"{said}; `millrace run` with the same file and `--new` measures both again."


def _there(side: SideExplanation) -> str:
    """Return text such as ``mysql-9.7.4: block 1; 4 trials failed, the first at ...``."""
    noun = "block" if len(side.blocks) == 1 else "blocks"
    blocks = f"{noun} {', '.join(map(str, sorted(side.blocks)))}" if side.blocks else "no block"
    text = f"{side.label}: {blocks}"
    if not side.failed:
        return text
    failed = counted(side.failed, "trial")
    return f"{text}, {failed} failed, the first {first_line(side.first_failure)}"


def _latency(explanation: Explanation) -> str:
    found = explanation.differences
    if found is None:
        return ""
    a_us, b_us = found.latencies_us
    decimals = us_decimals(max(a_us, b_us))
    in_b, in_a = (within(e, explanation.factor) for e in (explanation.b, explanation.a))
    mean = found.latency.mean
    size = f"{fixed_text(abs(mean), decimals)} µs {'longer' if mean >= 0 else 'shorter'}"
    taken = f"{fixed_text(b_us, decimals)} µs {in_b}, {size} than {in_a}{_at_once(explanation)}"
    if not _is_latency_sure(explanation):
        interval = _interval(found.latency, decimals)
        if is_sure(found.latency):
            interval = f"the ratio of the blocks does not exclude it, though their {interval} does"
        return f"It may be chance that a {explanation.noun} took {taken}: {interval}."
    text = f"A {explanation.noun} takes {taken}{_by_chance(found.latency)}"
    if not found.lines:
        return f"{text}; the parts of its time were not measured."
    parts = _parts([(line.title, line.difference.mean, _doubt(line)) for line in found.lines],
                   found.latency.mean, decimals)  # fmt: skip
    left = fixed_text(found.unaccounted.difference.mean, decimals, signed=True)
    return f"{text}: {parts}; {left} unaccounted."


def _at_once(explanation: Explanation) -> str:
    """Say how many threads loaded rows or applied changes, where the two sides' numbers differ."""
    sides = (explanation.b.breakdown, explanation.a.breakdown)
    numbers = [side.clients for side in sides if side is not None and side.loop == "load"]
    if len(set(numbers)) < 2:
        return ""
    return " (that of one thread: {} shared the work, not {})".format(*numbers)


def _is_latency_sure(explanation: Explanation) -> bool:
    """Return whether latencies differ: by their difference, and by their ratio as in a verdict."""
    found, ratio = explanation.differences, explanation.latency_ratio
    if found is None or not is_sure(found.latency):
        return False
    return ratio is None or ratio.low is None or ratio.excludes_1


def _statement(explanation: Explanation) -> str:
    found = explanation.differences
    if found is None or not _is_latency_sure(explanation):
        return ""
    return statement_sentence(explanation.statement_breakdown_differences, explanation.noun)


def _cpu(explanation: Explanation) -> str:
    """Return text such as ``9.7.4 needs 14.2 µs more of server CPU per row than 5.6.24: ...``."""
    row, total, profile = _cpu_row(explanation), _cpu_total(explanation), explanation.profile
    if total is None:
        return ""
    sizes = [side.mean for side in (row.a, row.b) if side is not None] if row is not None else []
    decimals = us_decimals(max([*sizes, abs(total.mean)]))
    base, subject = explanation.base, explanation.candidate
    is_named = is_name(explanation.factor, explanation.b.level)
    if not is_named:
        base = within(explanation.a, explanation.factor)
        at_b = within(explanation.b, explanation.factor)
        subject = f"{at_b} the server"
    size = f"{fixed_text(abs(total.mean), decimals)} µs {'more' if total.mean >= 0 else 'less'}"
    needed = f"{size} of server CPU per {explanation.noun} than {base}"
    if not _is_cpu_sure(explanation):
        interval = _interval(total, decimals)
        if is_sure(total):
            return f"It {_UNCORRECTED} that {subject} needed {needed}: {interval} without it."
        return f"It may be chance that {subject} needed {needed}: {interval}."
    first = subject if is_named else f"{subject[:1].upper()}{subject[1:]}"
    text = f"{first} needs {needed}{_by_chance(total)}"
    if profile is None:
        return f"{text}; without profiles of both it is not known in which functions."
    named = [group for group in profile.groups if group.name not in _UNEXPLAINED]
    parts = _parts([(g.title, g.difference.mean, _doubt(g)) for g in named], total.mean,
                   decimals)  # fmt: skip
    left = total.mean - math.fsum(group.difference.mean for group in named)
    return f"{text}: {parts}; {fixed_text(left, decimals, signed=True)} unexplained."


def cpu_cause_text(explanation: Explanation) -> str:
    """Return text such as ``more CPU in the server (user code)``, for a difference of CPU time."""
    found = explanation.differences
    lines = {} if found is None else {line.key: line.difference.mean for line in found.lines}
    user, kernel = lines.get("cpu_user", 0.0), lines.get("cpu_system", 0.0)
    where = "user code" if abs(user) >= abs(kernel) else "the kernel"
    return f"{'more' if user + kernel >= 0 else 'less'} CPU in the server ({where})"


def functions_sentence(explanation: Explanation) -> str:
    """Name the functions that make most of a difference in CPU time, with what is known of them.

    Empty without profiles of both, and where the CPU time may be the same.
    """
    profile = explanation.profile
    if profile is None or not _is_cpu_sure(explanation):
        return ""
    where = counted(len(profile.blocks), "profiled block")
    if not profile.leading:
        return f"No single function stands out in the profile of {where}."
    named = listed([_leading_text(each) for each in profile.leading])
    share = sum(each.share for each in profile.leading if not each.with_callees)
    most = "Most of it" if share >= _MOST_OF_IT else "Some of it"
    return f"{most} is in {named}, by {where}."


def _leading_text(each: LeadingFunction) -> str:
    """Return text such as ``row_sel_store (+8.1 µs, 57 %; 6.9 to 9.3)``."""
    decimals = us_decimals(abs(each.us))
    us, low, high = (fixed_text(us, decimals, signed=True) for us in (each.us, each.low, each.high))
    callees = " with all that it calls" if each.with_callees else ""
    share = whole_percent_text(each.share)
    return f"{short_symbol(each.name)}{callees} ({us} µs, {share}; {low} to {high})"


def _cpu_row(explanation: Explanation) -> EfficiencyRow | None:
    return next((row for row in explanation.efficiency if row.key == "cpu_server"), None)


def _cpu_total(explanation: Explanation) -> MeanEstimate | None:
    """Return the difference of the server's CPU time, else that of the profiles."""
    row, profile = _cpu_row(explanation), explanation.profile
    if row is not None:
        return row.difference
    return profile.cpu if profile is not None else None


def _is_cpu_sure(explanation: Explanation) -> bool:
    """Return whether the server's CPU time differs, after correction where its table corrects."""
    row, total = _cpu_row(explanation), _cpu_total(explanation)
    if total is None or not is_sure(total):
        return False
    return row is None or row.adjusted_p is None or row.significant


def _parts(parts: Sequence[tuple[str, float, str]], whole: float, decimals: int) -> str:
    """Return text such as ``parsing +3.1, all others −0.2`` of (name, µs, doubt), largest first."""
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
    """Return whether most of the difference in latency is not CPU time."""
    found = explanation.differences
    if found is None:
        return False
    ran = math.fsum(
        line.difference.mean for line in found.lines if line.key in ("cpu_user", "cpu_system")
    )
    return abs(ran) < 0.5 * abs(found.latency.mean)


def _doubt(each: DifferenceLine | GroupDifference) -> str:
    return "" if each.significant or each.adjusted_p is None else " (not sure)"


def _by_chance(estimate: MeanEstimate) -> str:
    return " (one block: it may be chance)" if estimate.low is None else ""


def _shared_cpu(explanation: Explanation, found: BreakdownDifference) -> Iterator[str]:
    """Note that a thread is also ready while its client runs on the CPU that they share."""
    ready = next((line.title for line in found.lines if line.key == "runnable"), None)
    sides = [side for side in (explanation.a, explanation.b) if _shares_cpu(side)]
    if ready is None or not sides:
        return
    cpu = [side.breakdown.client_cpu for side in sides if side.breakdown is not None]
    ran = [f"{figure_text(each.mean)} µs" for each in cpu if each is not None]
    most = f"up to {' and '.join(ran)} of it are" if len(ran) == len(sides) else "some of it is"
    where = f"{within(sides[0], explanation.factor)} " if len(sides) == 1 else ""
    yield (
        f"{where}the client and the server’s thread take turns on one CPU (colocate_client), and "
        f"“{ready}” is also waiting for the client’s turn to end: {most} the client’s own CPU time"
    )


def _shares_cpu(side: SideExplanation) -> bool:
    return any(
        instance.facts.cpu_idle is not None and instance.facts.cpu_idle.shared_cpu is not None
        for trial in side.trials
        for instance in trial.attempt.instances
    )


def _below_zero(explanation: Explanation, found: BreakdownDifference) -> Iterator[str]:
    """Name parts below zero by more than chance, which a wait for the client alone can be."""
    for line in found.lines:
        sides = ((explanation.a, line.a), (explanation.b, line.b))
        where = [
            within(side, explanation.factor)
            for side, us in sides
            if us is not None and us.high is not None and us.high < 0
        ]
        if where:
            yield (
                f"{line.title} is below zero {' and '.join(where)}: from an answer to the next "
                f"request the server’s threads were at something else too, which is in other parts "
                f"though in no latency"
            )


def within(side: SideExplanation, factor: str) -> str:
    """Return text such as ``in mysql-9.7.4``, ``with 16 clients``, ``with tls on``."""
    if is_name(factor, side.level):
        return f"in {side.label}"
    if factor == "clients":
        return f"with {counted(int(side.level), 'client')}"
    return f"with {side.label}"


def _interval(estimate: MeanEstimate, decimals: int) -> str:
    """Return text such as ``95 % interval −1.2 to +1.8 µs``."""
    ends = interval_text(estimate, decimals, signed=True)
    return f"{estimate.confidence * 100:g} % interval {ends} µs"


def _side(explanation: Explanation, of: Disturbance | MissingObservation) -> str:
    return explanation.base if of.side == "A" else explanation.candidate
