"""An explanation as HTML, a page or sections; flame graphs have a script, allowed by its hash."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from millrace.analysis.counts.model import CountComparison
from millrace.analysis.explain.explanation import Explanation, only_compared
from millrace.analysis.explain.plans import PlanComparison
from millrace.analysis.explain.time_breakdown import PARTS, UNACCOUNTED
from millrace.quantities import counted
from millrace.report.common.flame_graph import (
    MICROSECONDS,
    ROW_PX,
    FlameGraph,
    flame_graph,
)
from millrace.report.common.formatting import FINDING_GLYPHS
from millrace.report.common.pages import environment
from millrace.report.common.tables import Table
from millrace.report.counts.flame import count_graph
from millrace.report.counts.sentences import comparison_notes, sentence
from millrace.report.counts.tables import functions_table
from millrace.report.explanation import causes, profile_tables, sentences, tables
from millrace.report.explanation.ablation import ablation_sentences
from millrace.report.explanation.caveats import NOT_SURE, caveat_sentences
from millrace.report.explanation.server_tables import (
    access_text,
    digests_table,
    plan_table,
    waits_table,
)
from millrace.report.explanation.stacked_bars import StackedBars, stacked_bars
from millrace.store.records import RunRecord

_OPEN = 4  # comparisons; of more, each is closed until it is asked for
FLAME_GRAPHS = 8  # in a page: each is some hundred kilobytes


@dataclass(frozen=True)
class PlanSection:
    """A statement whose plans differ, or that one side alone has, with its plans."""

    statement: str
    sql: str
    different: tuple[str, ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class InstructionsSection:
    """The part of an explanation about counted instructions."""

    answer: str
    functions: Table | None
    notes: tuple[str, ...]
    graph: FlameGraph | None


@dataclass(frozen=True)
class FlatSection:
    """The flat profile of one side."""

    label: str
    note: str
    table: Table


@dataclass(frozen=True)
class ExplanationSection:
    """The values that the templates show of an explanation, under the names that they use.

    They are None or empty where nothing was observed. ``prefix`` begins the ids of its elements.
    """

    prefix: str
    noun: str
    explanation: Explanation
    title: str
    command: str
    answer: tuple[str, ...]
    caveats: tuple[str, ...]
    causes_title: str
    causes: tuple[causes.CauseText, ...]
    ablating: str
    ablation: tuple[str, ...]
    breakdown: Table | None
    breakdown_chart: StackedBars | None
    breakdown_notes: tuple[str, ...]
    statement_breakdowns: Table | None
    blocked: Table | None
    background: Table | None
    efficiency: Table | None
    statements: Table | None
    waits: Table | None
    stages: Table | None
    digests: Table | None
    coverages: tuple[str, ...]
    plans: tuple[PlanSection, ...]
    groups: Table | None
    functions: Table | None
    profile_notes: tuple[str, ...]
    paths: Table | None
    flame_graph: FlameGraph | None
    instructions: InstructionsSection | None
    flats: tuple[FlatSection, ...]
    disturbances: tuple[str, ...]
    missing: tuple[tuple[str, str, str], ...]


def as_html(explanations: Sequence[Explanation], run: RunRecord) -> str:
    """Return the whole page as text."""
    names = [name for each in explanations for name in (each.base, each.candidate)]
    heading = sentences.title(explanations[0]) if len(explanations) == 1 else run.title or run.name
    template = environment(names).get_template("explain.html.j2")
    return template.render(run=run, title=heading, **context(explanations))


def context(explanations: Sequence[Explanation]) -> dict[str, Any]:
    """Return the explanations' part of the context of templates."""
    drawn = [each.profile for each in explanations], [each.instructions for each in explanations]
    graphs = sum(each is not None for of in drawn for each in of) <= FLAME_GRAPHS
    parts = [
        _part(n, only_compared(each), graphs=graphs) for n, each in enumerate(explanations, start=1)
    ]
    script = ""
    if any(part.flame_graph or (part.instructions and part.instructions.graph) for part in parts):
        script = f"\n{(files('millrace.report') / 'templates/flame_graph.js').read_text('utf-8')}"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {
        "explained": parts,
        "flame_script": script,
        "flame_script_hash": f"sha256-{digest}",
        "flame_row": ROW_PX,
        "finding_glyphs": FINDING_GLYPHS,
        "not_sure": NOT_SURE,
        "statements_note": tables.NOTE,
        "collapsed": len(parts) > _OPEN,
        "counted": counted,
    }


def comparison_graph(explanation: Explanation) -> FlameGraph | None:
    """Return the flame graphs of an explanation; None without profiles of both."""
    if explanation.profile is None:
        return None
    return flame_graph(
        explanation.profile.tree,
        a=explanation.base,
        b=explanation.candidate,
        heading=f"Server CPU: {sentences.title(explanation)}",
        scale=replace(MICROSECONDS, total=f"µs per {explanation.noun}"),
    )


def _part(number: int, e: Explanation, *, graphs: bool) -> ExplanationSection:
    labels = sentences.headings(e)
    profile, found = e.profile, e.differences
    profiled = (profile, labels, e.noun)
    return ExplanationSection(
        prefix=f"explanation-{number}-",
        noun=e.noun,
        explanation=e,
        title=sentences.title(e),
        command=sentences.command(e),
        answer=tuple(sentences.answer(e)),
        caveats=tuple(caveat_sentences(e)),
        causes_title=causes.heading(e),
        causes=causes.cause_texts(e),
        ablating=causes.ablating(e),
        ablation=ablation_sentences(e),
        breakdown=tables.breakdown_table(found, labels, e.noun) if found is not None else None,
        breakdown_chart=_breakdown_chart(e),
        breakdown_notes=tuple(sentences.breakdown_notes(e)),
        statement_breakdowns=tables.statement_breakdown_table(
            e.statement_breakdown_differences, labels, e.noun
        ),
        blocked=tables.blocked_table(e.blocked, labels, e.noun),
        background=tables.background_table(e.a.breakdown, e.b.breakdown, labels),
        efficiency=tables.efficiency_table(e.efficiency, labels, e.noun),
        statements=tables.statements_table(e.statements, labels),
        waits=waits_table(e.waits, labels, noun=e.noun, title="Largest waits"),
        stages=waits_table(e.stages, labels, noun=e.noun, title="Stages of statements"),
        digests=digests_table(e.digests, labels),
        coverages=tuple(
            f"{side.label}: {sentences.coverage_text(side.coverage)}"
            for side in (e.a, e.b)
            if side.coverage is not None
        ),
        plans=tuple(_plan(plan, (e.base, e.candidate)) for plan in e.plans if plan.is_of_interest),
        groups=profile_tables.groups_table(*profiled),
        functions=profile_tables.functions_table(*profiled),
        profile_notes=tuple(
            profile_tables.notes(profile, [(side.label, side.flat) for side in (e.a, e.b)])
        ),
        paths=profile_tables.paths_table(*profiled),
        flame_graph=comparison_graph(e) if graphs else None,
        instructions=_instructions(e.instructions, graphs=graphs),
        flats=tuple(
            FlatSection(
                label=side.label,
                note=profile_tables.flat_note(side.flat),
                table=profile_tables.flat_table(side.flat, side.label),
            )
            for side in (e.a, e.b)
            if side.flat is not None
        ),
        disturbances=tuple(sentences.disturbance_texts(e)),
        missing=tuple(sentences.missing_rows(e)),
    )


def _instructions(found: CountComparison | None, *, graphs: bool) -> InstructionsSection | None:
    if found is None:
        return None
    return InstructionsSection(
        answer=sentence(found),
        functions=functions_table(found) if found.functions else None,
        notes=tuple(comparison_notes(found)),
        graph=count_graph(found) if graphs and found.ratio is not None else None,
    )


def _breakdown_chart(e: Explanation) -> StackedBars | None:
    found = e.differences
    if found is None:
        return None
    lines = {str(line.key): line for line in (*found.lines, found.unaccounted)}
    titles = {**{str(key): name for key, name in PARTS.items()}, UNACCOUNTED: UNACCOUNTED}
    parts = [(key, lines[key].a_us, lines[key].b_us) for key in titles if key in lines]
    return stacked_bars((e.base, e.candidate), found.latencies_us, titles, parts)


def _plan(plan: PlanComparison, labels: tables.Labels) -> PlanSection:
    sides = list(zip((plan.a, plan.b), labels, strict=True))
    return PlanSection(
        statement=plan.statement,
        sql=next((side.sql for side, _ in sides if side), ""),
        different=plan.different,
        tables=tuple(plan_table(side, label) for side, label in sides if side and side.rows),
        notes=tuple(
            f"{label}: {access_text(side) if side else 'no plan of it is known'}"
            for side, label in sides
            if not (side and side.rows)
        ),
    )
