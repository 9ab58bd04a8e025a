"""Test that the published schemas are those of the documents."""

import json
from importlib import resources

import pytest

from millrace.report.common.json_parts import JsonPart
from millrace.report.explanation.json import ExplanationDocument
from millrace.report.history import HistoryDocument
from millrace.report.run.json import ReportDocument
from tests.support.json_schema import json_schema


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("explanation-2", ExplanationDocument),
        ("history-2", HistoryDocument),
        ("report-3", ReportDocument),
    ],
)
def test_schema_file_is_up_to_date(name: str, document: type[JsonPart]) -> None:
    file = resources.files("millrace.report") / "schema" / f"{name}.schema.json"
    assert json.loads(file.read_text("utf-8")) == json_schema(document)
