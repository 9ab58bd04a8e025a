"""What qualifies a report: how it was measured, and what makes it less trustworthy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.analysis.model import RunAnalysis
from millrace.report.formatting import counted, margin_text
from millrace.report.sentences import first_line


def subtitle(analysis: RunAnalysis) -> str:
    """One line: the run, its scale, size, blocks and margin."""
    run = analysis.run
    parts = [f"run {run.id}", f"scale {run.scale}"]
    if "rows" in run.spec.get("parameters", {}):
        parts.append(f"{int(run.spec['parameters']['rows']):,} rows")
    parts += [f"{name} {level}" for name, level in analysis.constants.items()]
    parts += [counted(run.blocks, "block"), f"margin {margin_text(analysis.margin)}"]
    return " · ".join(parts)


def findings(analysis: RunAnalysis) -> list[Mapping[str, Any]]:
    """What doctor found about the host when the run began, the gravest first."""
    gravity = {"problem": 0, "warn": 1, "unknown": 2, "ok": 3}
    found = analysis.run.host.facts.get("findings") or []
    return sorted(found, key=lambda finding: gravity.get(str(finding.get("status")), 2))


def warnings(analysis: RunAnalysis) -> list[str]:
    """What a reader must know before trusting the verdicts, a sentence each."""
    lines = []
    planned = len(analysis.trials)
    ended = sum(t.finished + t.failed for t in analysis.treatments)
    if ended < planned:
        waiting = f"{planned - ended} of {counted(planned, 'trial')}"
        lines.append(f"the run is unfinished: {waiting} have not ended")
    if analysis.failures:
        lines.append(f"{len(analysis.failures)} of {counted(planned, 'trial')} failed")
    asked = sum(len(i.mismatches) for t in analysis.treatments for i in t.instances)
    if asked:
        lines.append(f"{counted(asked, 'option')} asked for took another value on a server")
    left_out = sum(len(i.left_out) for t in analysis.treatments for i in t.instances)
    if left_out:
        lines.append(f"{counted(left_out, 'option')} left out where a server does not know them")
    grave = [f for f in findings(analysis) if f.get("status") in ("problem", "warn")]
    if grave:
        checks = ", ".join(str(finding.get("check")) for finding in grave)
        lines.append(f"this host makes results less trustworthy: {checks}")
    return lines


def failure_lines(analysis: RunAnalysis) -> list[str]:
    """Failed trials in a line each; those of a treatment that failed alike share one."""
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
    """How many intervals exclude 1 by chance alone, when several comparisons are made."""
    number = len(analysis.comparisons())
    if number < 2:
        return None
    expected = number * (1 - analysis.confidence)
    return (
        f"Each interval has its own confidence of {analysis.confidence * 100:g} %: of {number} "
        f"comparisons of like with like, {expected:.1f} would exclude 1 by chance."
    )
