"""Define the base classes of records that are stored as JSON documents.

A class defines the keys of a document with their types and limits. They are checked once, when the
document is read (pydantic's ValidationError is a ValueError). Unknown keys are errors.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, with_config

T = TypeVar("T")

EXACT = ConfigDict(extra="forbid")
exact = with_config(EXACT)
"""Make unknown keys of a dataclass, and of those in it, errors when it is read from a document."""

_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z")


def instant(text: str) -> str:
    """Return the text if it is an instant in UTC; otherwise raise ValueError."""
    if _INSTANT.fullmatch(text) is None:  # other forms of ISO 8601 do not sort as text
        raise ValueError("not an instant in UTC such as 2026-01-31T23:59:59Z")
    datetime.fromisoformat(text)
    return text


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number is expected")
    return value


def _items(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


Instant = Annotated[str, Field(min_length=20, max_length=32), AfterValidator(instant)]
Number = Annotated[int | float, BeforeValidator(_number)]
Count = Annotated[int | float, BeforeValidator(_number), Field(ge=0)]
Positive = Annotated[int | float, BeforeValidator(_number), Field(gt=0)]
Whole = Annotated[int, Field(ge=0)]
Items = Annotated[tuple[T, ...], BeforeValidator(_items)]
"""A list of the document, as a tuple."""


def canonical(value: object) -> str:
    """Return plain data as JSON text that does not depend on the order of keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def short_digest(value: object) -> str:
    """Return 12 hexadecimal digits that identify plain data."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:12]


class Accrued:
    """Mark an amount that is the growth between the two readings of its section."""


Amount = Annotated[Count, Accrued()]
AmountOrNone = Annotated[Count | None, Accrued()]
SignedAmount = Annotated[Number | None, Accrued()]


class Document(BaseModel):
    """A document: unknown keys are errors, and values are not converted to other types."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True
    )

    def to_json(self) -> dict[str, Any]:
        """Return the document as plain data, without keys that were not set."""
        return self.model_dump(mode="json", exclude_unset=True, by_alias=True)

    def replace(self, **changes: object) -> Self:
        """Return a copy with other values for some keys; the copy is checked."""
        kept = {name: value for name, value in self if name in self.model_fields_set}
        return type(self).model_validate({**kept, **changes})


class OpenDocument(Document):
    """A document that keeps unknown keys, which another package checks and reads."""

    model_config = ConfigDict(extra="allow")


class Excerpt(Document):
    """Some keys of a longer document; other keys are ignored."""

    model_config = ConfigDict(extra="ignore")


def as_lines(documents: Iterable[Document]) -> bytes:
    """Return documents as the bytes of a file of JSON lines."""
    return "".join(f"{each.model_dump_json()}\n" for each in documents).encode()
