"""An explanation as HTML, a page or sections; flame graphs have a script, allowed by its hash."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import accumulate
from typing import Any

from millrace.analysis.counts.model import CountComparison
from millrace.analysis.explain.explanation import Explanation, only_compared
from millrace.analysis.explain.plans import PlanComparison
from millrace.analysis.explain.time_breakdown import PARTS, UNACCOUNTED
from millrace.quantities import counted
from millrace.report.common.charts import Tick, linear_ticks
from millrace.report.common.flame_graph import MICROSECONDS, ROW_PX, FlameGraph, flame_graph
from millrace.report.common.formatting import FINDING_GLYPHS, figure_text
from millrace.report.common.pages import environment
from millrace.report.counts import comparison_notes, count_graph, functions_table, sentence
from millrace.report.explanation import causes, sentences, tables
from millrace.report.explanation.ablation import ablation_sentences
from millrace.report.explanation.caveats import NOT_SURE, caveat_sentences
from millrace.report.explanation.tables import access_text, digests_table, plan_table, waits_table
from millrace.store.records import RunRecord

EXCESS = "counted twice"

_LABELLED = 9.0  # percent of the width that has room for a title
_VISIBLE = 0.3  # percent of the width
_OPEN = 4  # comparisons; of more, each is closed until it is asked for
FLAME_GRAPHS = 8  # in a page: each is some hundred kilobytes


@dataclass(frozen=True)
class Segment:
    """A part of a bar; ``key`` chooses its colour."""

    key: str
    title: str
    at: float
    width: float
    us: float

    @property
    def labelled(self) -> bool:
        """Return whether there is room for its title."""
        return self.width >= _LABELLED

    @property
    def description(self) -> str:
        return f"{self.title}: {figure_text(self.us)} µs"


@dataclass(frozen=True)
class Bar:
    """One side, the whole up to ``total_at``; ``excess`` is what the parts exceed it by, if so."""

    label: str
    total_us: float
    total_at: float
    segments: tuple[Segment, ...]
    excess: Segment | None

    @property
    def description(self) -> str:
        shown = (*self.segments, *((self.excess,) if self.excess is not None else ()))
        parts = ", ".join(segment.description for segment in shown)
        return f"{self.label}, {figure_text(self.total_us)} µs: {parts}"


@dataclass(frozen=True)
class Link:
    """The same part in both bars, as the corners of a polygon in percent: "x,y x,y ..."."""

    key: str
    points: str


@dataclass(frozen=True)
class StackedBars:
    """Two bars, what joins their parts, and an axis in µs."""

    bars: tuple[Bar, Bar]
    links: tuple[Link, ...]
    ticks: tuple[Tick, ...]
    legend: tuple[tuple[str, str], ...]

    @property
    def exceeds(self) -> bool:
        """Return whether the parts of either exceed the whole."""
        return any(bar.excess is not None for bar in self.bars)


def stacked_bars(
    labels: tuple[str, str],
    totals_us: tuple[float, float],
    titles: Mapping[str, str],
    parts_us: Sequence[tuple[str, float, float]],
) -> StackedBars | None:
    """Return the bars of A and B from parts (key, µs of A, µs of B), drawn in that order.

    A part that is negative, which noise can make it, is not drawn; by how much the others exceed
    the whole then is. None where nothing is left.
    """
    shown = [(key, max(0.0, a), max(0.0, b)) for key, a, b in parts_us if a > 0 or b > 0]
    widest = max(sum(a for _, a, _ in shown), sum(b for _, _, b in shown), *totals_us)
    if not shown or widest <= 0:
        return None
    percent = 100 / widest
    sides = [[a for _, a, _ in shown], [b for _, _, b in shown]]
    names = [(key, titles[key]) for key, _, _ in shown]
    bars = []
    for label, total, us in zip(labels, totals_us, sides, strict=True):
        segments = tuple(
            Segment(key, title, percent * at, percent * width, width)
            for (key, title), width, at in zip(names, us, accumulate(us, initial=0.0), strict=False)
        )
        excess = _excess(total, sum(us), percent)
        bars.append(Bar(label, total, percent * total, segments, excess))
    return StackedBars(
        (bars[0], bars[1]),
        tuple(map(_link, bars[0].segments, bars[1].segments)),
        tuple(Tick(percent * step, figure_text(step)) for step in linear_ticks(widest)),
        tuple(names),
    )


def _excess(total_us: float, parts_us: float, percent: float) -> Segment | None:
    us = parts_us - total_us
    if percent * us < _VISIBLE:
        return None
    return Segment("excess", EXCESS, percent * total_us, percent * us, us)


def _link(a: Segment, b: Segment) -> Link:
    corners = ((a.at, 0), (a.at + a.width, 0), (b.at + b.width, 100), (b.at, 100))
    return Link(a.key, " ".join(f"{x:.2f},{y}" for x, y in corners))


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
    if any(
        part["flame_graph"] or (part["instructions"] and part["instructions"]["graph"])
        for part in parts
    ):
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


def _part(number: int, e: Explanation, *, graphs: bool) -> dict[str, Any]:
    """Return the values that the templates show of an explanation, by the names that they use.

    They are None or empty where nothing was observed. ``prefix`` begins the ids of its elements.
    """
    labels = sentences.headings(e)
    profile, found = e.profile, e.differences
    profiled = (profile, labels, e.noun)
    return {
        "prefix": f"explanation-{number}-",
        "noun": e.noun,
        "explanation": e,
        "title": sentences.title(e),
        "command": sentences.command(e),
        "answer": tuple(sentences.answer(e)),
        "caveats": tuple(caveat_sentences(e)),
        "causes_title": causes.heading(e),
        "causes": causes.cause_texts(e),
        "ablating": causes.ablating(e),
        "ablation": ablation_sentences(e),
        "breakdown": tables.breakdown_table(found, labels, e.noun) if found is not None else None,
        "breakdown_chart": _breakdown_chart(e),
        "breakdown_notes": tuple(sentences.breakdown_notes(e)),
        "statement_breakdowns": tables.statement_breakdown_table(
            e.statement_breakdown_differences, labels, e.noun
        ),
        "blocked": tables.blocked_table(e.blocked, labels, e.noun),
        "background": tables.background_table(e.a.breakdown, e.b.breakdown, labels),
        "efficiency": tables.efficiency_table(e.efficiency, labels, e.noun),
        "statements": tables.statements_table(e.statements, labels),
        "waits": waits_table(e.waits, labels, noun=e.noun, title="Largest waits"),
        "stages": waits_table(e.stages, labels, noun=e.noun, title="Stages of statements"),
        "digests": digests_table(e.digests, labels),
        "coverages": tuple(
            f"{side.label}: {sentences.coverage_text(side.coverage)}"
            for side in (e.a, e.b)
            if side.coverage is not None
        ),
        "plans": tuple(
            _plan(plan, (e.base, e.candidate)) for plan in e.plans if plan.is_of_interest
        ),
        "groups": tables.groups_table(*profiled),
        "functions": tables.functions_table(*profiled),
        "profile_notes": tuple(
            tables.profile_notes(profile, [(side.label, side.flat) for side in (e.a, e.b)])
        ),
        "paths": tables.paths_table(*profiled),
        "flame_graph": comparison_graph(e) if graphs else None,
        "instructions": _instructions(e.instructions, graphs=graphs),
        "flats": tuple(
            {
                "label": side.label,
                "note": tables.flat_note(side.flat),
                "table": tables.flat_table(side.flat, side.label),
            }
            for side in (e.a, e.b)
            if side.flat is not None
        ),
        "disturbances": tuple(sentences.disturbance_texts(e)),
        "missing": tuple(sentences.missing_rows(e)),
    }


def _instructions(found: CountComparison | None, *, graphs: bool) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "answer": sentence(found),
        "functions": functions_table(found) if found.functions else None,
        "notes": tuple(comparison_notes(found)),
        "graph": count_graph(found) if graphs and found.ratio is not None else None,
    }


def _breakdown_chart(e: Explanation) -> StackedBars | None:
    found = e.differences
    if found is None:
        return None
    lines = {str(line.key): line for line in (*found.lines, found.unaccounted)}
    titles = {**{str(key): name for key, name in PARTS.items()}, UNACCOUNTED: UNACCOUNTED}
    parts = [(key, lines[key].a_us, lines[key].b_us) for key in titles if key in lines]
    return stacked_bars((e.base, e.candidate), found.latencies_us, titles, parts)


def _plan(plan: PlanComparison, labels: tables.Labels) -> dict[str, Any]:
    sides = list(zip((plan.a, plan.b), labels, strict=True))
    return {
        "statement": plan.statement,
        "sql": next((side.sql for side, _ in sides if side), ""),
        "different": plan.different,
        "tables": tuple(plan_table(side, label) for side, label in sides if side and side.rows),
        "notes": tuple(
            f"{label}: {access_text(side) if side else 'no plan of it is known'}"
            for side, label in sides
            if not (side and side.rows)
        ),
    }
