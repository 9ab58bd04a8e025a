"""Test the JSON document of explanations."""

import json
from dataclasses import replace

import pytest

from millrace.analysis.explain.explanation import Explanation
from millrace.report.explanation.json import ExplanationDocument, as_json
from tests.support.explained import explained_page, explained_text
from tests.support.reports import one_line, page_text


def test_json_keeps_its_schema(study: Explanation, little: Explanation) -> None:
    text = as_json([study, little], study.run)
    document = ExplanationDocument.model_validate_json(text, strict=True)
    assert json.loads(text)["schema"] == "millrace.explanation/2"
    first, second = document.explanations
    assert first.breakdown is not None
    lines = [*first.breakdown.lines, first.breakdown.unaccounted]
    assert sum(line.difference.mean for line in lines) == pytest.approx(
        first.breakdown.latency.mean
    )
    assert first.profile is not None
    assert sum(group.a_us for group in first.profile.groups) == pytest.approx(
        first.profile.a_cpu_us
    )
    assert second.profile is None


def test_every_format_has_the_reason_when_no_cause_is_likely(study: Explanation) -> None:
    why = "No cause follows from the times: latencies do not differ by more than chance."
    alike = replace(study, likely_causes=(), why_no_likely_causes=why)
    for found, times in ((alike, 1), (study, 0)):
        assert one_line(explained_text([found])).count(why) == times
        assert page_text(explained_page(found)).count(why) == times
        (result,) = json.loads(as_json([found], found.run))["explanations"]
        assert result["why_no_likely_causes"] == (why if times else None)
