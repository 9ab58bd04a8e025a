"""``millrace bisect``: between which two servers of a list did the level change?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from millrace.analysis.compare.bisection import (
    INSTALL,
    Bisection,
    Open,
    bisection,
    is_reversed,
    trials_to_go,
)
from millrace.app import run
from millrace.app.block_by_block import TIME_IS_OVER, BlockByBlock
from millrace.campaign.blocks import n_blocks
from millrace.campaign.policies.bisect import (
    bisecting,
    experiment_text,
    member_plan,
    members,
    refuse_unknown,
)
from millrace.cli.bisect_output import print_found
from millrace.cli.console import err
from millrace.cli.exclusive_host import quiet_host
from millrace.cli.experiment_options import surroundings
from millrace.cli.number_options import Duration, Percent
from millrace.cli.store_option import store_option
from millrace.errors import (
    Interrupted,
    MillraceError,
    PermanentHostError,
    TrialFailed,
    UserError,
    ValidationError,
    nearest_names,
)
from millrace.experiment.model import Experiment, Plan
from millrace.experiment.read import Overrides, parse, read
from millrace.experiment.validation import MAX_MARGIN_PERCENT
from millrace.levels import Level
from millrace.report.bisection.html import as_html
from millrace.report.bisection.sentences import likeliest
from millrace.report.common.formatting import counted, value_text
from millrace.report.common.output_files import PAGE, write_text
from millrace.servers import install
from millrace.stats.bisection import Next
from millrace.store.store import Store
from millrace.trial.transient import is_transient

_NUMBER = re.compile(r"-?\d+")
_SWITCHES: Mapping[str, Level] = {"on": True, "true": True, "off": False, "false": False}


class Servers(click.ParamType[tuple[str, ...]]):
    """Names of servers in order, separated by commas, or a file with one a line."""

    name = "list"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        text = str(value)
        if Path(text).is_file():
            try:
                lines = Path(text).read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as problem:
                self.fail(f"{text} cannot be read: {problem}", param, ctx)
            names = [line.partition("#")[0].strip() for line in lines]
        else:
            names = [name.strip() for name in text.split(",")]
            known = [row.name for row in install.list_servers()]
            if "," not in text and text not in known:
                near = nearest_names(text, known)
                meant = f" The nearest names are {', '.join(near)}." if near else ""
                self.fail(
                    f"{text!r} is neither a file nor a server.{meant} "
                    "`millrace servers list` shows all servers.",
                    param,
                    ctx,
                )
        listed = tuple(name for name in names if name)
        if not listed:
            self.fail(f"{text!r} names no server.", param, ctx)
        return listed


class OptionValue(click.ParamType[tuple[str, Level]]):
    """NAME=VALUE of a server option, as a level: whole numbers and switches as what they are."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Level]:
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"{value!r} is not of the form NAME=VALUE.", param, ctx)
        if _NUMBER.fullmatch(text):
            return name, int(text)
        return name, _SWITCHES.get(text.lower(), text)


@click.command()
@click.option("--good", required=True, metavar="SERVER", help="One that has the old level.")
@click.option("--bad", required=True, metavar="SERVER", help="One that has the new level.")
@click.option(
    "--among",
    required=True,
    type=Servers(),
    metavar="LIST",
    help="The servers from one to the other, in order: names and commas, or a file.",
)
@click.option(
    "--workload",
    required=True,
    metavar="W",
    help="A built-in workload, a test of one, or an experiment file with one level of each factor.",
)
@click.option("--scale", help="One of the experiment file's scales.")
@click.option(
    "--option",
    "options",
    type=OptionValue(),
    multiple=True,
    metavar="NAME=VALUE",
    help="A server option for all of them; may be repeated.",
)
@click.option(
    "--margin",
    type=Percent(0, MAX_MARGIN_PERCENT, min_open=True),
    metavar="PERCENT",
    help="Changes up to this one do not matter.",
)
@click.option(
    "--confidence",
    type=Percent(50, 99.99),
    default=95.0,
    show_default=True,
    metavar="PERCENT",
    help="How probable the answer is to be.",
)
@click.option(
    "--max-time",
    type=Duration(),
    metavar="DURATION",
    help="The time that all trials of the search may take, such as 45min or 2h.",
)
@click.option("--new", "fresh", is_flag=True, help="Begin anew, whatever there is.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@store_option
def command(
    *,
    good: str,
    bad: str,
    among: tuple[str, ...],
    workload: str,
    scale: str | None,
    options: tuple[tuple[str, Level], ...],
    margin: float | None,
    confidence: float,
    max_time: float | None,
    fresh: bool,
    as_json: bool,
    store: Path,
) -> None:
    """Find between which two servers of a list the level of a workload changed.

    Each trial measures the server that is expected to tell most, so that noise leads to more
    trials and not to a wrong answer. The same command goes on where it was stopped.
    """
    servers = members(good, bad, among)
    refuse_unknown(servers, [row.name for row in install.list_servers()])
    experiment = bisecting(
        _experiment(workload, scale, servers, margin),
        servers,
        workload=workload,
        options=dict(options),
        confidence=confidence / 100,
    )
    with ExitStack() as stack:
        stack.enter_context(quiet_host(f"bisect {servers[0]} to {servers[-1]}"))
        opened = stack.enter_context(Store.open(store))
        found = _searched(stack, opened, experiment, limit_s=max_time, fresh=fresh)
        page = write_text(
            opened.report_path(found.run.id), as_html(found), PAGE, make_directory=True
        )
    print_found(found, page, as_json=as_json)


def _experiment(
    workload: str, scale: str | None, servers: Sequence[str], margin: float | None
) -> Experiment:
    """The experiment of the file that ``workload`` is, or one made of a built-in workload."""
    around, overrides = surroundings(), Overrides(margin_percent=margin)
    if workload.endswith(".toml"):
        return read(Path(workload), scale=scale, surroundings=around, overrides=overrides)
    if scale is not None:
        raise UserError(
            f"--scale {scale}: the workload {workload} has no scales",
            hint="leave it out, or name an experiment file with --workload",
        )
    text = experiment_text(workload, servers)
    source = Path(f"--workload {workload}")
    try:
        return parse(text, source, scale=None, surroundings=around, overrides=overrides)
    except ValidationError as wanting:
        raise UserError(
            str(wanting), hint="say it in an experiment file, and name that with --workload"
        ) from None


def _searched(
    stack: ExitStack, store: Store, experiment: Experiment, *, limit_s: float | None, fresh: bool
) -> Bisection:
    """Measure until the change is found, or the time is over."""
    chosen = run.choose(store, experiment, fresh=fresh)
    names = [str(level) for level in experiment.factors[0].levels]
    blocks = BlockByBlock(stack, store, chosen, limit_s=limit_s)
    err.print(f"run {chosen.run.id}: {counted(len(names), 'server')}", markup=False)
    while True:
        found = None if blocks.stored is None else bisection(blocks.stored)
        if found is not None:
            _refuse(found)
        following = _following(found, n_blocks(blocks.stored))
        if found is not None and (following is None or found.unsteady or blocks.is_late):
            if following is not None and not found.unsteady:
                err.print(TIME_IS_OVER, markup=False)
            return found
        assert following is not None  # before anything was measured there is an end to begin with
        name = names[following.member]
        plan = member_plan(experiment, name, seed=chosen.run.seed, block=following.block)
        _measure(blocks, plan)
        _tell(blocks, name)


def _following(found: Bisection | None, block: int) -> Open | None:
    """The trial that comes next: one that is open, else that of the server that tells most."""
    if found is None:
        return Open(0, 0)
    if found.open is not None:
        return found.open
    return Open(block, found.step.index) if isinstance(found.step, Next) else None


def _refuse(found: Bisection) -> None:
    """Raise what makes going on useless: an end without a level, or ends that are the wrong way
    round."""
    names = found.spec.members
    if found.lost_end:
        raise TrialFailed(
            f"an end of the list cannot be measured: {found.lost_end}",
            hint="name another server with --good or --bad",
        )
    if is_reversed(found):
        good, bad = (found.members[end].level for end in (0, -1))
        assert good is not None
        assert bad is not None
        unit = found.metric.unit
        raise UserError(
            f"{names[-1]} is better than {names[0]}: {value_text(bad, found.metric)} against "
            f"{value_text(good, found.metric)} {unit}",
            hint=f"swap them: --good {names[-1]} --bad {names[0]}",
        )


def _measure(blocks: BlockByBlock, plan: Plan) -> None:
    """One trial; a server that cannot be had has a failed one, after a second try where what came
    may have been damaged. Raises HostError for what may pass, and the server is tried again when
    the search goes on."""
    for last in (False, True):
        try:
            blocks.prepare(plan)
            break
        except (Interrupted, ValidationError):
            raise
        except MillraceError as problem:
            if is_transient(problem):
                raise
            if last or not isinstance(problem, PermanentHostError):
                blocks.record_failure(plan, INSTALL, str(problem))
                return
    blocks.carry_out(plan, retry_failed=True)


def _tell(blocks: BlockByBlock, name: str) -> None:
    """One line about what is known now, and what is next."""
    assert blocks.stored is not None
    found = bisection(blocks.stored)
    text = f"{counted(found.trials, 'trial')}, the last of {name}: {likeliest(found)}"
    if isinstance(found.step, Next) and not (found.lost_end or found.unsteady):
        text += f"; next {found.spec.members[found.step.index]}"
        if to_go := trials_to_go(found):
            text += f", about {counted(to_go, 'trial')} to go"
    err.print(text, markup=False)
