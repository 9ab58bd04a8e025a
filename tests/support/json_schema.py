"""The published schemas of JSON documents."""

from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import NullableSchema

from millrace.report.common.json_parts import JsonPart


class _ShortSchema(GenerateJsonSchema):
    """A generator that leaves out titles of keys, which repeat names, and joins type and null."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def nullable_schema(self, schema: NullableSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        if inner.keys() == {"type"}:
            return {"type": [inner["type"], "null"]}
        return super().nullable_schema(schema)


def json_schema(kind: type[JsonPart]) -> Mapping[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a document."""
    generated = kind.model_json_schema(
        by_alias=True, mode="serialization", schema_generator=_ShortSchema
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **generated}
