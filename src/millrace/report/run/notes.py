"""Notes on a report: how it was measured, and what makes it less trustworthy."""

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from millrace.analysis.compare.model import Group, RunAnalysis
from millrace.analysis.compare.verdict import margin_text
from millrace.levels import Level, factor_text, is_name, level_text, level_value
from millrace.model.host_facts import Finding
from millrace.model.servers import IN_ITS_PLACE
from millrace.quantities import counted
from millrace.report.common.formatting import count_text, percent_text
from millrace.report.common.wording import ORIGIN_TEXT, first_line, imported_notes, listed
from millrace.report.counts import sentence
from millrace.report.run import drive_notes
from millrace.report.run.design import design_text
from millrace.report.run.doubts import aa_text, is_base_doubtful
from millrace.report.run.sentences import FEW

_MOST_COUNTS = 6
_MOST_OPTIONS = 4
GENERATOR_WAIT_LIMIT = 0.01  # of the load's time: half of the usual margin


def subtitle(analysis: RunAnalysis) -> str:
    """Return one line: the run, its scale, size, blocks and how they ended, and margin."""
    run = analysis.run
    parts = [f"run {run.id}", f"scale {run.scale}"]
    if run.origin != "local":
        parts.append(ORIGIN_TEXT[run.origin])
    if "rows" in run.spec.parameters:
        parts.append(f"{int(run.spec.parameters['rows']):,} rows")
    parts += _constants(analysis.constants)
    parts += [design_text(analysis), f"margin {margin_text(analysis.margin)}"]
    return " · ".join(parts)


def _constants(levels: Mapping[str, Level]) -> list[str]:
    """Return the levels that do not vary, in words where their names would be a riddle."""
    texts = []
    for name, level in levels.items():
        if name == "tls":
            texts.append("TLS" if level else "no TLS")
        elif name == "rate" and not isinstance(level, str):
            texts.append(f"open loop, {level:,} transactions/s" if level else "closed loop")
        elif name != "arrivals" or levels.get("rate", 1):  # a closed loop has no arrivals
            texts.append(
                f"{factor_text(name)} {level_value(level)}"
                if is_name(name, level)
                else level_text(name, level)
            )
    return texts


def findings(analysis: RunAnalysis) -> list[Finding]:
    """Return doctor's findings about the host when the run began, the gravest first."""
    gravity = {"problem": 0, "warn": 1, "unknown": 2, "ok": 3}
    found = analysis.run.host.facts.findings or ()
    return sorted(found, key=lambda finding: gravity.get(finding.status, 2))


def warnings(analysis: RunAnalysis) -> list[str]:
    """Return sentences on what makes the verdicts less trustworthy."""
    return [
        *imported_notes(analysis.run),
        *_about_trials(analysis),
        *_about_levels(analysis),
        *_about_bases(analysis),
        *(
            f"{name} is attached, so not all there could be controlled or observed: "
            f"{'; '.join(limits)}"
            for name, limits in analysis.limits.items()
        ),
        *drive_notes.warnings(analysis),
        *_about_generator(analysis),
        *(line for group in analysis.groups for line in _about_warnings(group)),
        *_about_options(analysis),
        *_about_replaced_options(analysis),
        *_about_host(analysis),
    ]


def conditions(analysis: RunAnalysis) -> list[str]:
    """Return sentences on the conditions of the measurement."""
    found = analysis.aa_trials
    lines = [aa_text(found)] if found is not None and not is_base_doubtful(analysis) else []
    if analysis.run.spec.collectors == ():
        lines.append("no collector observed the servers, so nothing explains a difference")
    return [*lines, *drive_notes.conditions(analysis)]


def instructions(analysis: RunAnalysis) -> list[str]:
    """Return one sentence on the instruction counts of each comparison."""
    return [
        f"{label}: {sentence(comparison)}" if label else sentence(comparison)
        for label, comparison in analysis.instructions
    ]


def counted_lines(analysis: RunAnalysis) -> list[str]:
    """Return the lines of the first instruction counts, and the note that they are not speed."""
    lines = instructions(analysis)
    if not lines:
        return []
    others = len(lines) - _MOST_COUNTS
    more = f", and {counted(others, 'more comparison')}" if others > 0 else ""
    command = f"millrace explain {shlex.quote(analysis.run.id)}"
    last = f"instructions are not speed; the functions that differ{more}: `{command}`"
    return [*lines[:_MOST_COUNTS], last]


def _about_trials(analysis: RunAnalysis) -> list[str]:
    lines = []
    if missing := analysis.run.design.left_out_tests:
        lines.append(
            f"tests that did not fit into the limit of time are missing: {listed(missing)}"
        )
    planned = len(analysis.trials)
    open_trials = sum(treatment.open for treatment in analysis.treatments)
    if open_trials:
        waiting = f"{open_trials} of {counted(planned, 'trial')}"
        lines.append(f"the run is unfinished: {waiting} have not ended")
    if analysis.failures:
        lines.append(f"{len(analysis.failures)} of {counted(planned, 'trial')} failed")
    if analysis.extended_at and analysis.run.design.kind == "fixed":
        blocks = (*analysis.extended_at, analysis.run.blocks)
        numbers = ", then ".join(f"{number:,}" for number in blocks)
        lines.append(
            f"blocks were added after a first look ({numbers}), so the interval is the wider one "
            f"that holds for any number of looks"
        )
    elif analysis.retried and analysis.run.design.kind == "fixed":
        again = counted(analysis.retried, "trial")
        lines.append(
            f"{again} that had failed {'was' if analysis.retried == 1 else 'were'} made again "
            f"after the run had been over, so the interval is the wider one that holds for any "
            f"number of looks"
        )
    return lines


def _about_levels(analysis: RunAnalysis) -> Iterator[str]:
    """Explain values that differ from the mean of their trials; see ``MetricSummary``."""
    adjusted = [
        treatment.label
        for treatment in analysis.treatments
        if (found := treatment.metrics.get(analysis.headline.name)) is not None
        and not math.isclose(found.level, found.summary.geometric_mean)
    ]
    if adjusted:
        whose = counted(len(adjusted), "treatment") if len(adjusted) > FEW else listed(adjusted)
        value = "its value is" if len(adjusted) == 1 else "each one's value is"
        yield (
            f"{whose} did not finish the same blocks as the base: {value} the base's times the "
            f"ratio over the blocks that both finished, not the mean of the trials"
        )


def _about_bases(analysis: RunAnalysis) -> Iterator[str]:
    failed = [t.label for t in analysis.treatments if t.is_base and t.failed and not t.finished]
    finished = Counter(str(t.level) for t in analysis.treatments if t.finished and not t.is_base)
    if failed and finished:
        (other, _), *_ = finished.most_common(1)
        command = shlex.join(["millrace", "report", analysis.run.id, "--base", other])
        yield f"the base has no result ({', '.join(failed)}): `{command}` compares with another"


def _about_generator(analysis: RunAnalysis) -> Iterator[str]:
    waited = [
        f"{t.label} {percent_text(t.generator_wait)}"
        for t in analysis.treatments
        if t.generator_wait is not None and t.generator_wait > GENERATOR_WAIT_LIMIT
    ]
    if waited:
        limit = margin_text(GENERATOR_WAIT_LIMIT)
        note = f"the load waited for the load generator to make rows, more than {limit} of its time"
        yield f"{note}, so the server may be faster than measured: {', '.join(waited)}"


def _about_warnings(group: Group) -> Iterator[str]:
    """Return a warning if servers reported different numbers of warnings for the same data."""
    counts = [(t, t.load_warnings) for t in group.treatments if t.load_warnings is not None]
    for base, of_base in counts:
        unequal = [(t, count) for t, count in counts if count != of_base]
        if base.is_base and unequal:
            texts = [f"{t.label} {count_text(count)}" for t, count in ((base, of_base), *unequal)]
            yield (
                f"LOAD DATA raised warnings, not as many in all (mean of a trial), so the work may "
                f"be unequal: {', '.join(texts)}"
            )


def _about_options(analysis: RunAnalysis) -> Iterator[str]:
    instances = [i for t in analysis.treatments for i in t.instances]
    if asked := [(each.name, i.server.name) for i in instances for each in i.mismatches]:
        yield f"{_options(asked, 'requested option')} took another value"
    if left_out := [(each.name, i.server.name) for i in instances for each in i.left_out]:
        yield f"{_options(left_out, 'option')} left out, which a server cannot have"


def _options(named: Iterable[tuple[str, str]], noun: str) -> str:
    """Return options with their servers, such as ``1 option (sync_binlog on mysql-5.6.24)``."""
    servers: dict[str, dict[str, None]] = {}
    for name, server in named:
        servers.setdefault(name, {})[server] = None
    texts = [f"{name} on {', '.join(of)}" for name, of in list(servers.items())[:_MOST_OPTIONS]]
    if more := len(servers) - len(texts):
        texts.append(f"{more} more")
    return f"{counted(len(servers), noun)} ({'; '.join(texts)})"


def _about_replaced_options(analysis: RunAnalysis) -> Iterator[str]:
    """Say which newer options servers got instead of those that they no longer have."""
    instances = [i for t in analysis.treatments for i in t.instances]
    left_out = ((each.name, each.left_out or "") for i in instances for each in i.left_out)
    texts = dict.fromkeys(f"{name}: {why}" for name, why in left_out if IN_ITS_PLACE in why)
    yield from texts


def _about_host(analysis: RunAnalysis) -> Iterator[str]:
    grave = [f for f in findings(analysis) if f.status in ("problem", "warn")]
    if grave:
        checks = ", ".join(finding.check for finding in grave)
        yield f"this host makes results less trustworthy: {checks}"


def failure_lines(analysis: RunAnalysis) -> list[str]:
    """Return a line per failed trial; trials of a treatment with the same failure share one."""
    alike: dict[tuple[str, str, str], list[int]] = {}
    for failure in analysis.failures:
        key = (failure.treatment, failure.step, first_line(failure.reason))
        alike.setdefault(key, []).append(failure.block + 1)
    return [
        f"{treatment}, {'block' if len(blocks) == 1 else 'blocks'} {', '.join(map(str, blocks))}, "
        f"step {step}: {reason}"
        for (treatment, step, reason), blocks in alike.items()
    ]


def chance(analysis: RunAnalysis) -> str | None:
    """Explain how many intervals exclude 1 by chance alone, and the correction, if several do."""
    number = sum(comparison.estimate is not None for comparison in analysis.comparisons())
    if number < 2:
        return None
    alpha = 1 - analysis.confidence
    return (
        f"Each interval has its own confidence of {analysis.confidence * 100:g} %: of {number} "
        f"comparisons of like with like, {number * alpha:.1f} would exclude 1 by chance. So a "
        f"difference counts as a regression or an improvement where it is left when their number "
        f"is taken into account (a false discovery rate of {alpha * 100:g} %, by Benjamini and "
        f"Yekutieli); else it may be chance."
    )
