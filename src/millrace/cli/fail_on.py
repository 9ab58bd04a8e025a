"""Define the option ``--fail-on``: the verdicts that make a command fail."""

from collections.abc import Iterable

import click

from millrace.analysis import ci_gate
from millrace.analysis.ci_gate import EXIT_STATUS, Gated, GatedVerdict, failing
from millrace.analysis.compare.model import RunAnalysis
from millrace.errors import GateFailed, TrialFailed
from millrace.quantities import counted
from millrace.report.run.sentences import COUNTED

_MOST_NAMED = 5


def _verdicts(value: str | tuple[()]) -> tuple[Gated, ...]:
    """Return the comma-separated verdicts to fail on; none by default."""
    if isinstance(value, tuple):
        return value
    known: dict[str, Gated] = {kind: kind for kind in EXIT_STATUS}
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if name not in known:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(known)}.")
    return tuple(known[name] for name in names)


fail_on_option = click.option(
    "--fail-on",
    type=_verdicts,
    default=(),
    metavar="VERDICTS",
    help="Verdicts that fail the command: `regression` (exit status 10), or "
    "`regression,inconclusive` (10, or 11 if only inconclusive). A run with a failed trial exits "
    "with 3.",
)


def check_run(analysis: RunAnalysis, fail_on: tuple[Gated, ...]) -> None:
    """Raise TrialFailed if a trial of the run failed, else GateFailed like ``check``.

    The result of a failed trial is unknown, so no verdict of its run passes the gate.
    """
    if analysis.failures:
        raise TrialFailed(
            f"{len(analysis.failures)} of {counted(len(analysis.trials), 'trial')} failed",
            hint=f"`millrace results show {analysis.run.id}` shows the reasons and the servers' "
            "logs; `millrace run ... --retry-failed` repeats the failed trials",
        )
    check(ci_gate.of_run(analysis), fail_on)


def check(verdicts: Iterable[GatedVerdict], fail_on: tuple[Gated, ...]) -> None:
    """Raise GateFailed if a verdict is one of ``fail_on``."""
    failed = failing(verdicts, fail_on)
    if not failed:
        return
    kind = failed[0].kind
    subjects = [each.subject for each in failed if each.subject]
    text = f"--fail-on {kind}: {counted(len(failed), *COUNTED[kind])}"
    if subjects:
        more = len(subjects) - _MOST_NAMED
        text += f": {', '.join(subjects[:_MOST_NAMED])}"
        text += f" and {more} more" if more > 0 else ""
    raise GateFailed(text, exit_status=EXIT_STATUS[kind])
