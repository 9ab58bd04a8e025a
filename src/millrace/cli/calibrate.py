"""``millrace calibrate``: how often verdicts are false on this host, and how small a change they
see."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from millrace.analysis.compare.calibration import calibration
from millrace.analysis.compare.calibration_model import Calibration
from millrace.app import run
from millrace.app.block_by_block import TIME_IS_OVER, BlockByBlock
from millrace.campaign.blocks import n_blocks, open_block
from millrace.campaign.policies.calibrate import (
    Wanted,
    block_plan,
    calibrating,
    groups_of,
    level_beforehand,
    next_block,
    wanted_again,
)
from millrace.cli.console import err, out, print_json
from millrace.cli.exclusive_host import quiet_host
from millrace.cli.experiment_options import ExperimentChoice, calibration_options
from millrace.cli.store_option import store_option
from millrace.durations import in_words
from millrace.errors import UserError
from millrace.experiment.model import Experiment
from millrace.experiment.slowdown import CPU, FSYNC, NONE
from millrace.model.servers import AttachedServer
from millrace.report.calibration import json as report_json
from millrace.report.calibration.sentences import sentences
from millrace.report.calibration.tables import groups_table
from millrace.report.common.formatting import counted
from millrace.report.common.terminal_table import show_table
from millrace.servers import install
from millrace.store.store import Store

MOST_VERDICTS = 10_000

_OPTION = re.compile(r"[A-Za-z][\w-]*=\S*")


class Planting(click.ParamType[str]):
    """The kind of a slowdown, or an option that is one."""

    name = "slowdown"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        of_option = _OPTION.fullmatch(text) and text.partition("=")[0] not in (CPU, FSYNC)
        if text not in (NONE, CPU, FSYNC) and not of_option:
            self.fail(f"{text!r} is none of none, cpu, fsync and OPTION=VALUE.", param, ctx)
        return text


@click.command()
@calibration_options
@store_option
@click.option(
    "--verdicts",
    type=click.IntRange(1, MOST_VERDICTS),
    default=20,
    show_default=True,
    help="How many A/A verdicts there are to be, as many in each group.",
)
@click.option(
    "--slowdown",
    "planting",
    type=Planting(),
    default=CPU,
    show_default=True,
    metavar="none|cpu|fsync|OPTION=VALUE",
    help="What is planted, which must be found.",
)
@click.option("--new", "fresh", is_flag=True, help="Begin anew, whatever there is.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    choice: ExperimentChoice,
    *,
    store: Path,
    verdicts: int,
    planting: str,
    fresh: bool,
    as_json: bool,
) -> None:
    """Measure how far verdicts on the experiment in FILE can be trusted on this host.

    Its base is measured beside itself, so that every difference is false, and then beside itself
    slowed down. The same command goes on where it was stopped, more --verdicts add to what there
    is, and reports quote it.
    """
    experiment = calibrating(choice.read())
    planted = None if planting == NONE else planting
    if planted is not None:
        _refuse_attached(experiment)
    with ExitStack() as stack:
        stack.enter_context(quiet_host(f"calibrate {experiment.name}"))
        opened = stack.enter_context(Store.open(store))
        found = _calibrated(
            stack,
            opened,
            experiment,
            verdicts,
            planted,
            limit_s=choice.overrides.max_time_s,
            fresh=fresh,
        )
    _show(found, as_json=as_json)


def _refuse_attached(experiment: Experiment) -> None:
    """Refuse to slow down servers that are not ours, before anything is measured."""
    servers = next(each for each in experiment.factors if each.name == "server")
    for level in servers.levels:
        name = str(servers.aliases.get(str(level), level))
        attached = (row.name for row in install.list_servers() if row.state == "attached")
        if name in attached and isinstance(install.find(name), AttachedServer):
            raise UserError(
                f"{name} is attached: millrace cannot slow it down",
                hint="calibrate with --slowdown none",
            )


def _calibrated(
    stack: ExitStack,
    store: Store,
    experiment: Experiment,
    verdicts: int,
    planting: str | None,
    *,
    limit_s: float | None,
    fresh: bool,
) -> Calibration:
    """Measure until all that is asked for is there, or the time is over."""
    chosen = run.choose(store, experiment, fresh=fresh)
    blocks = BlockByBlock(stack, store, chosen, limit_s=limit_s)
    groups = groups_of(experiment)
    beforehand = None if planting is None else level_beforehand(planting)
    if beforehand is not None:
        asked = Wanted(beforehand, groups)
        blocks.prepare(block_plan(experiment, asked, seed=0, block=0, position=0))
    err.print(f"run {chosen.run.id}: {counted(len(groups), 'group')}", markup=False)
    found = None if blocks.stored is None else calibration(blocks.stored)
    while True:
        stored = blocks.stored
        number = open_block(stored)
        if stored is not None and number is not None:
            wanted = wanted_again(stored, number)
        else:
            number = n_blocks(stored)
            following = next_block(found, groups, verdicts=verdicts, planting=planting)
            if found is not None and (following is None or blocks.is_late):
                if following is not None:
                    err.print(TIME_IS_OVER, markup=False)
                return found
            assert following is not None  # without a block there is one to begin with
            wanted = following
        position = 0 if stored is None else len(stored.trials)
        plan = block_plan(experiment, wanted, seed=chosen.run.seed, block=number, position=position)
        found = calibration(blocks.carry_out(plan))
        _tell(found, verdicts, wanted.level)


def _tell(found: Calibration, verdicts: int, level: str) -> None:
    """One line about how far it has come."""
    wanting = max(verdicts - len(found.verdicts), 0)
    left = _left_s(found, wanting)
    text = f"{len(found.verdicts)} of {verdicts} verdicts, {found.false} false"
    if wanting and left is not None:
        text += f"; about {in_words(left)} left for the others"
    err.print(f"with slowdown {level}: {text}", markup=False)


def _left_s(found: Calibration, wanting: int) -> float | None:
    """The time of the verdicts that are wanting, if they take as many blocks as those before."""
    done = found.verdicts
    budget = found.target.blocks
    usual = sum(len(each.blocks) for each in done) / len(done) if done else budget
    times = [group.block_s for group in found.groups if group.block_s is not None]
    return wanting * usual * sum(times) / len(times) if times else None


def _show(found: Calibration, *, as_json: bool) -> None:
    if as_json:
        print_json(report_json.as_json(found))
        return
    asked = found.target
    out.print(f"calibration of this host for {asked.name} (run {found.run.id})", markup=False)
    out.print()
    show_table(groups_table(found), out)
    out.print()
    for line in sentences(found):
        out.print(line, markup=False)
