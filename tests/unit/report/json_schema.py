"""The published schemas of JSON documents."""

from collections.abc import Mapping
from typing import Any

from millrace.report.common.json_parts import Part


def json_schema(kind: type[Part]) -> Mapping[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a document."""
    generated = kind.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **generated}
