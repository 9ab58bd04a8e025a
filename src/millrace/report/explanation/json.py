"""Explanations as the documented JSON document."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.analysis.explain.model import Explanation, SideExplanation
from millrace.report.common.json_parts import document_text, host_part, part, run_part
from millrace.report.explanation.ablation import ablation_sentences
from millrace.report.explanation.caveats import caveat_sentences
from millrace.report.explanation.schema import (
    VERSION,
    AblationPart,
    ExplanationDocument,
    ExplanationPart,
    ProfilePart,
    SidePart,
)
from millrace.report.explanation.sentences import answer, title
from millrace.store.records import RunRecord


def as_document(explanations: Sequence[Explanation], run: RunRecord) -> ExplanationDocument:
    """Return the explanations as the documented, versioned document."""
    return ExplanationDocument(
        schema=VERSION,
        run=run_part(run),
        host=host_part(run.host),
        explanations=[_explanation(explanation) for explanation in explanations],
    )


def as_json(explanations: Sequence[Explanation], run: RunRecord) -> str:
    """Return the document as indented JSON text, with a newline at its end."""
    return document_text(as_document(explanations, run))


def _explanation(e: Explanation) -> ExplanationPart:
    return part(
        ExplanationPart,
        e,
        title=title(e),
        answer=answer(e),
        caveats=caveat_sentences(e),
        a=_side(e.a),
        b=_side(e.b),
        unequal=e.unequal or None,
        why_no_likely_causes=e.why_no_likely_causes or None,
        ablation=_ablation(e),
        breakdown=e.differences,
        profile=None
        if e.profile is None
        else part(ProfilePart, e.profile, call_paths=e.profile.paths),
    )


def _ablation(e: Explanation) -> AblationPart | None:
    found = e.ablation
    if found is None:
        return None
    return part(
        AblationPart,
        found,
        run=found.run_id,
        metric=found.metric.name,
        answer=ablation_sentences(e),
        unsteady=found.unsteady or None,
    )


def _side(side: SideExplanation) -> SidePart:
    return part(
        SidePart,
        side,
        trials=len(side.trials),
        profiled_trials=len(side.profiled),
        flat_profile=side.flat,
    )
