"""Define the option ``--fail-on``, which makes an exit status of a verdict."""

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
    """Return the verdicts to fail on, which commas separate; the default has none."""
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
    help="Exit with 10 on a regression (`regression`), with 11 also without a verdict "
    "(`regression,inconclusive`), and with 3 where a trial failed.",
)


def check_run(analysis: RunAnalysis, fail_on: tuple[Gated, ...]) -> None:
    """Raise TrialFailed where a trial of a run failed, else as ``check`` does for its verdicts.

    What a failed trial would have shown is unknown, so that no verdict of the run passes a gate.
    """
    if analysis.failures:
        raise TrialFailed(
            f"{len(analysis.failures)} of {counted(len(analysis.trials), 'trial')} failed",
            hint=f"`millrace results show {analysis.run.id}` has each reason and the server's log; "
            "`millrace run ... --retry-failed` repeats them",
        )
    check(ci_gate.of_run(analysis), fail_on)


def check(verdicts: Iterable[GatedVerdict], fail_on: tuple[Gated, ...]) -> None:
    """Raise GateFailed where a verdict is one that the user asked to fail on."""
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
