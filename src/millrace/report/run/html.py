"""The report as one HTML file, without network; only flame graphs have a script."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from millrace.analysis.compare.model import RunAnalysis, VariablesComparison
from millrace.analysis.compare.published import published_comparison
from millrace.analysis.compare.treatments import TreatmentAnalysis
from millrace.analysis.compare.verdict import margin_text
from millrace.analysis.explain.explanation import Explanation
from millrace.levels import level_text
from millrace.output_files import PAGE, write_text
from millrace.report.calibration import head_line
from millrace.report.common.formatting import GLYPHS, bytes_text
from millrace.report.common.pages import environment
from millrace.report.common.wording import first_line, repeating
from millrace.report.explanation import html as explain_html
from millrace.report.run import charts, drive_tables, notes, tables
from millrace.report.run import design as design_text
from millrace.report.run.dependence import dependence_part
from millrace.report.run.doubts import DOUBT, doubts
from millrace.report.run.full_disk_tables import full_disk_tables
from millrace.report.run.matrix import is_large, matrix, sections
from millrace.report.run.sentences import answer, sentence, summary, verdict_text
from millrace.report.run.undecided import next_step
from millrace.report.run.units import readable
from millrace.shown_text import shown_line


def as_html(analysis: RunAnalysis, explanations: Sequence[Explanation] = ()) -> str:
    """Return the whole page as text, with sections for each explanation."""
    analysis = readable(analysis)
    names = (level_text(analysis.factor, each.level) for each in analysis.treatments)
    template = environment(names).get_template("report.html.j2")
    return template.render(
        **run_page(analysis),
        **explain_html.context(explanations),
        glyphs=GLYPHS,
        repeating=repeating,
        first_line=first_line,
    )


def write(analysis: RunAnalysis, path: Path, explanations: Sequence[Explanation] = ()) -> Path:
    """Write the page to ``path``, making its directory; raise HostError where that cannot be."""
    return write_text(path, as_html(analysis, explanations), PAGE, make_directory=True)


def run_page(analysis: RunAnalysis) -> dict[str, Any]:
    """Return the values that the templates show of a run, by the names that they use.

    ``sentences`` are verdicts with their sentence, ``curves`` and ``order`` by section and block,
    ``variables`` differences with the groups that share them. ``others`` are the metrics beside the
    headline.
    """
    headline, large = analysis.headline, is_large(analysis)
    relative = charts.relative_charts(analysis, headline) if large else ()
    parts = sections(analysis)
    curves = [
        (heading, charts.latency_charts(groups, analysis.factor)) for heading, groups in parts
    ]
    study = published_comparison(analysis)
    measured = [metric for metric in analysis.metrics if metric != analysis.time]
    published = [tables.published_table(analysis, study, metric) for metric in measured if study]
    return {
        "analysis": analysis,
        "run": analysis.run,
        "title": shown_line(analysis.run.title or analysis.run.name),
        "subtitle": notes.subtitle(analysis),
        "calibration": head_line(analysis),
        "summary": summary(analysis),
        "answer": answer(analysis),
        "doubts": [f"{DOUBT}: {doubt}" for doubt in doubts(analysis)],
        "next_step": next_step(analysis),
        "sentences": [(verdict_text(c), sentence(c, analysis)) for c in analysis.comparisons()],
        "warnings": notes.warnings(analysis),
        "conditions": notes.conditions(analysis),
        "large": large,
        "matrix": matrix(analysis, headline) if large else None,
        "relative": relative,
        "one_axis": charts.have_one_axis(relative),
        "dependence": dependence_part(analysis),
        "full_disk": full_disk_tables(analysis),
        "maintenance": drive_tables.maintenance_tables(analysis),
        "background_clients": drive_tables.background_table(analysis),
        "latencies": drive_tables.latency_table(analysis, "transaction"),
        "statements": drive_tables.latency_table(analysis, "statement"),
        "curves": [each for each in curves if each[1]],
        "lag": charts.lag_charts(analysis.groups, analysis.factor),
        "loops": drive_tables.loop_tables(analysis),
        "loop_charts": charts.loop_charts(analysis.groups, analysis.factor),
        "costs": drive_tables.cost_table(analysis),
        "steady": drive_tables.steady_table(analysis),
        "results": tables.results_table(analysis, headline, analysis.time),
        "bars": charts.bar_charts(analysis, headline),
        "ratios": charts.ratio_charts(analysis, headline),
        "ratios_in_figures": tables.ratios_table(analysis, headline),
        "others": [
            {
                "metric": metric,
                "matrix": matrix(analysis, metric) if large else None,
                "results": tables.results_table(analysis, metric, None),
                "charts": charts.ratio_charts(analysis, metric),
                "ratios": tables.ratios_table(analysis, metric),
            }
            for metric in measured
            if metric != headline
        ],
        "study": study,
        "published": [table for table in published if table is not None],
        "sizes": tables.sizes_table(analysis),
        "table_files": tables.table_files_table(analysis),
        "steps": tables.steps_table(analysis),
        "every_trial": tables.trials_table(analysis, headline),
        "options": tables.options_table(analysis),
        "provenance": tables.provenance_table(analysis),
        "variables": _shared_differences(analysis.variables, many=len(analysis.groups)),
        "bases_without_variables": _bases_without_variables(analysis),
        "findings": notes.findings(analysis),
        "facts": list(_flat(analysis.run.host.facts.to_json())),
        "order": _order(analysis),
        "chance": notes.chance(analysis),
        "method": design_text.method(analysis),
        "margin": margin_text(analysis.margin),
    }


def _shared_differences(
    compared: Sequence[VariablesComparison], *, many: int
) -> list[tuple[VariablesComparison, str]]:
    """Return differences that several groups share once, each with where it is."""
    found: list[tuple[VariablesComparison, list[str]]] = []
    for one in compared:
        for other, groups in found:
            if replace(one, group=other.group) == other:
                groups.append(one.group)
                break
        else:
            found.append((one, [one.group]))
    return [(one, "" if len(groups) == many else ", ".join(groups)) for one, groups in found]


def _bases_without_variables(analysis: RunAnalysis) -> list[str]:
    """Return the labels of bases whose variables alone were not recorded."""

    def recorded(treatment: TreatmentAnalysis) -> bool:
        return any(instance.effective for instance in treatment.instances)

    return [
        base.label
        for group in analysis.groups
        for base in group.treatments
        if base.is_base and not recorded(base) and any(map(recorded, group.treatments))
    ]


def _order(analysis: RunAnalysis) -> list[list[str]]:
    labels = {treatment.id: treatment.label for treatment in analysis.treatments}
    blocks: dict[int, list[str]] = {}
    for trial in analysis.trials:
        again = " (A/A trial)" if trial.purpose == "aa" else ""
        blocks.setdefault(trial.block, []).append(f"{labels[trial.treatment_id]}{again}")
    return list(blocks.values())


def _flat(facts: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield facts as (name, text), nested ones with their path; what is unknown is left out."""
    for key, value in facts.items():
        name = f"{prefix}{key}".replace("_", " ")
        if key == "findings" or value is None or value in ("", [], {}):
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}: ")
        elif key.endswith("_bytes") and isinstance(value, int | float):
            yield name.removesuffix(" bytes"), bytes_text(value)
        elif isinstance(value, bool):
            yield name, "yes" if value else "no"
        elif isinstance(value, list | tuple):
            yield name, ", ".join(str(item) for item in value)
        else:
            yield name, str(value)
