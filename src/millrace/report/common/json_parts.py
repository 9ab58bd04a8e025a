"""The parts that several JSON documents share, and how parts are read from records of the analysis.

A part is declared once: each key with its type and, where the record has another name for it, the
place of its value there. Parts within it are read in the same way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict

from millrace.report.common.wording import repeating
from millrace.shown_text import shown_json
from millrace.store.records import Origin


@dataclass(frozen=True)
class From:
    """The place of a key's value in a record: a path of attributes, or a function of the record.

    A path that ends early, at an attribute that is None, stands for ``otherwise``.
    """

    place: str | Callable[[Any], object]
    otherwise: object = None

    def value(self, record: object) -> object:
        if callable(self.place):
            return self.place(record)
        for name in self.place.split("."):
            if record is None:
                return self.otherwise
            record = getattr(record, name)
        return record


TextOrNull = Annotated[str | None, BeforeValidator(lambda text: text or None)]
"""Text that a record leaves empty where there is none."""


class JsonPart(BaseModel):
    """A part of a document: it has these keys and no others.

    It is read from a record whose attributes have the names of its keys, but for those with another
    place (``From``). ``WITHIN`` is an attribute that holds what the record itself does not.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    WITHIN: ClassVar[str] = ""


P = TypeVar("P", bound=JsonPart)


def part(kind: type[P], record: object, **others: object) -> P:
    """Return a part with the values of ``others``, and of all other keys those of ``record``."""
    values = {}
    for name, field in kind.model_fields.items():
        key = field.alias or name
        if key in others:
            value = others[key]
        else:
            declared = next((each for each in field.metadata if isinstance(each, From)), None)
            is_within = declared is None and kind.WITHIN and not hasattr(record, name)
            place = declared or From(f"{kind.WITHIN}.{name}" if is_within else name)
            value = place.value(record)
        values[key] = _parts(field.annotation, value)
    return kind.model_validate(values | {key: others[key] for key in others.keys() - values.keys()})


def _parts(annotation: object, value: object) -> object:
    """Return a value with the parts that its type asks for in place of records."""
    kinds = [each for each in (annotation, *get_args(annotation)) if isinstance(each, type)]
    kind = next((each for each in kinds if issubclass(each, JsonPart)), None)
    if kind is None or value is None or isinstance(value, JsonPart):
        return value
    if isinstance(value, Mapping):
        return {key: _parts(kind, each) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_parts(kind, each) for each in value]
    return part(kind, value)


class RunPart(JsonPart):
    """The run: what was carried out, where and with which versions.

    `origin` is `local` where it was measured here, and `imported` where it came from a file, so
    that nothing in it was verified here.
    """

    id: str
    origin: Origin
    digest: str
    name: str
    title: str
    scale: str
    created_utc: str
    seed: int
    blocks: int
    versions: dict[str, str]
    parameters: Annotated[dict[str, Any], From("spec.parameters")]
    command: Annotated[str, From(lambda run: repeating(run.millrace_command))]


class HostPart(JsonPart):
    """Facts of the host when the run began, doctor's findings included."""

    id: str
    facts: Annotated[dict[str, Any], From(lambda host: host.facts.to_json())]


def document_text(document: JsonPart) -> str:
    """Return a document as indented JSON text, with a newline at its end."""
    return shown_json(document.model_dump_json(by_alias=True, indent=2)) + "\n"
