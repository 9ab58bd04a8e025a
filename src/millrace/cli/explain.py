"""Provide ``millrace explain``: why one treatment of a run is slower than another."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from millrace import output_files
from millrace.analysis.explain.call_tree import CallNode
from millrace.analysis.explain.explanation import Explanation
from millrace.app.ablate import ablate
from millrace.app.explain import Selection, explain_run, titles
from millrace.cli.console import echo, err, out
from millrace.cli.event_text import calling
from millrace.cli.options import OUTPUT_FILE, store_option
from millrace.errors import UserError
from millrace.experiment.settings import MAX_BLOCKS
from millrace.report.common.flame_graph import FlameGraph, as_svg
from millrace.report.counts import count_graph
from millrace.report.explanation import html as explain_html
from millrace.report.explanation import terminal as explain_terminal
from millrace.report.explanation.folded_stacks import as_differential, as_folded, as_speedscope
from millrace.report.explanation.json import as_json
from millrace.report.explanation.sentences import title

_KINDS: Mapping[str, output_files.Kind] = {
    "--html": output_files.PAGE,
    "--flame-graph": output_files.FLAME_GRAPH,
    "--speedscope": output_files.SPEEDSCOPE,
    "--folded": output_files.FOLDED,
}


@click.command()
@click.argument("run", default="latest")
@store_option
@click.option(
    "--base",
    metavar="LEVEL",
    help="Level of the compared factor to use as A (default: the experiment's base).",
)
@click.option(
    "--candidate",
    "candidates",
    metavar="LEVEL",
    multiple=True,
    help="Level of the compared factor to use as B (default: all other levels); may be repeated.",
)
@click.option(
    "--factor", metavar="NAME", help="The factor to compare, if several factors have these levels."
)
@click.option("--test", metavar="TEST", help="Only this test.")
@click.option(
    "--where",
    metavar="FACTOR=LEVEL",
    multiple=True,
    help="Only treatments with this level of another factor; may be repeated.",
)
@click.option("--json", "json_wanted", is_flag=True, help="Print JSON.")
@click.option("--html", type=OUTPUT_FILE, help="Write a page to FILE.")
@click.option(
    "--flame-graph", type=OUTPUT_FILE, help="Write differential flame graphs (SVG) to FILE."
)
@click.option("--speedscope", type=OUTPUT_FILE, help="Write both profiles for speedscope to FILE.")
@click.option(
    "--folded",
    type=OUTPUT_FILE,
    help="Write folded stacks with the time in A and in B (ns) to FILE, for flame graph tools.",
)
@click.option(
    "--side",
    type=click.Choice(["A", "B"]),
    help="With --folded: only this treatment, in one column.",
)
@click.option(
    "--ablate",
    "ablated",
    is_flag=True,
    help="Measure B again with its suspected settings changed to A's values.",
)
@click.option(
    "--blocks",
    type=click.IntRange(1, MAX_BLOCKS),
    help="With --ablate: number of blocks (default: as many as the run, up to 10).",
)
def command(
    *,
    run: str,
    store: Path,
    base: str | None,
    candidates: tuple[str, ...],
    factor: str | None,
    test: str | None,
    where: tuple[str, ...],
    json_wanted: bool,
    side: str | None,
    ablated: bool,
    blocks: int | None,
    **paths: Path | None,
) -> None:
    """Explain where the time of an operation goes in two treatments of RUN, and why they differ.

    RUN is an id, its beginning, or `latest`. Measures nothing: the explanation uses the data that
    collectors and the profiler recorded during the run. Only --ablate starts servers: it measures,
    in a separate run, how much of the difference comes from settings. Later explanations of RUN
    include that result. For the id of an ablation, explains the run that it tested.
    """
    _refuse_alone("--side", side, "--folded", paths["folded"])
    _refuse_alone("--blocks", blocks, "--ablate", ablated or None)
    named = {option: paths[option.strip("-").replace("-", "_")] for option in _KINDS}
    files = {option: path for option, path in named.items() if path is not None}
    _refuse_places(files)
    selection = Selection(base, candidates, factor, test, where)
    explained = explain_run(store, run, selection)
    if "--flame-graph" in files:
        _graph(explained.explanations)
    if files.keys() & {"--speedscope", "--folded"}:
        _profiled(explained.explanations)
    if ablated:
        with calling() as caller:
            explained = ablate(store, explained, caller, blocks=blocks)
    found, stored = explained.explanations, explained.stored
    texts: dict[str, Callable[[], str]] = {
        "--html": lambda: explain_html.as_html(found, stored.run),
        "--flame-graph": lambda: as_svg(_graph(found)),
        "--speedscope": lambda: _speedscope(found),
        "--folded": lambda: _folded(found, side),
    }
    for option, path in files.items():
        written = output_files.write_text(path, texts[option](), _KINDS[option], option=option)
        err.print(f"wrote {written}")
    if json_wanted:
        echo(as_json(found, stored.run))
    elif not files:
        explain_terminal.show(found, out)


def _refuse_alone(option: str, value: object, needed: str, given: object) -> None:
    if value is not None and given is None:
        raise UserError(f"{option} needs {needed}", hint=f"add {needed}")


def _refuse_places(files: Mapping[str, Path]) -> None:
    """Raise UserError if a file cannot be written, or two options name the same file."""
    options: dict[Path, str] = {}
    for option, path in files.items():
        other = options.setdefault(path.resolve(), option)
        if other != option:
            raise UserError(
                f"{other} and {option} both write {path}", hint="give each option its own file"
            )
        output_files.refuse_place(path, _KINDS[option], option)


def _graph(found: Sequence[Explanation]) -> FlameGraph:
    """Return the flame graphs of the only profiled comparison, or else of the only counted one."""
    counted = [e for e in found if e.instructions is not None and e.instructions.ratio is not None]
    if counted and all(each.profile is None for each in found):
        instructions = _only(counted, "instructions").instructions
        assert instructions is not None
        return count_graph(instructions)
    graph = explain_html.comparison_graph(_profiled(found)[0])
    assert graph is not None
    return graph


def _speedscope(found: Sequence[Explanation]) -> str:
    explanation, tree = _profiled(found)
    heading = f"{title(explanation)}, CPU time per {explanation.noun}"
    return as_speedscope(tree, a=explanation.base, b=explanation.candidate, heading=heading)


def _folded(found: Sequence[Explanation], side: str | None) -> str:
    _, tree = _profiled(found)
    if side is None:
        return as_differential(tree)
    return as_folded(tree, "A" if side == "A" else "B")


def _profiled(found: Sequence[Explanation]) -> tuple[Explanation, CallNode]:
    """Return the only explanation with a profile, and its call tree.

    Raise UserError if there is none, or several.
    """
    profiled = [explanation for explanation in found if explanation.profile is not None]
    if not profiled:
        raise UserError(
            "no block has profiles of both A and B, so no call paths can be written",
            hint="`millrace run FILE --profile-blocks 3` adds profiled blocks to a run; if it has "
            "some, `millrace explain` shows why they cannot be compared",
        )
    explanation = _only(profiled, "profiles")
    assert explanation.profile is not None
    return explanation, explanation.profile.tree


def _only(having: Sequence[Explanation], what: str) -> Explanation:
    """Return the only explanation in ``having``; raise UserError if there are several."""
    if len(having) > 1:
        raise UserError(
            f"{len(having)} comparisons have {what}, and the file can contain only one",
            hint=f"choose one with --candidate, --test and --where: {titles(having)}",
        )
    return having[0]
