"""Counts of instructions as a JSON document."""

from typing import Annotated, Any

from pydantic import Field

from millrace.analysis.counts.compare_counts import CountedRun
from millrace.analysis.counts.model import Verdict
from millrace.levels import Level
from millrace.report.common.json_parts import From, Part, part
from millrace.report.common.wording import imported_notes
from millrace.report.counts.sentences import comparison_notes, notes, sentence
from millrace.store.records import Origin

VERSION = "millrace.counts/1"


class ProgramPart(Part):
    """The build of the server's program, as far as it says."""

    compilers: tuple[str, ...]
    position_independent: bool | None


class TreatmentPart(Part):
    """The count of a treatment, in instructions per statement."""

    levels: dict[str, Level]
    instructions: Annotated[float | None, From("mean")]
    starts: Annotated[tuple[float, ...], From("values")]
    left_out: int
    spread: float | None
    background: float | None
    transactions: int | None
    refusal: str | None
    program: ProgramPart | None


class FunctionPart(Part):
    """A function that makes a difference; callers are those of its largest one."""

    name: str
    file: str | None
    callers: tuple[str, ...]
    a: float
    b: float
    difference: float
    only: str | None
    places: int


class ComparisonPart(Part):
    """A candidate against the base; the ratio is candidate / base."""

    base: Annotated[str, From("base.label")]
    candidate: Annotated[str, From("candidate.label")]
    verdict: Verdict
    ratio: Annotated[float | None, From("ratio.ratio")]
    low: Annotated[float | None, From("ratio.low")]
    high: Annotated[float | None, From("ratio.high")]
    sentence: Annotated[str, From(sentence)]
    functions: list[FunctionPart]
    notes: tuple[str, ...]


class ComparedTreatmentsPart(ComparisonPart):
    """A candidate against the base, with the counts of both."""

    treatments: Annotated[list[TreatmentPart], From(lambda found: (found.base, found.candidate))]
    notes: Annotated[tuple[str, ...], From(comparison_notes)]


class GroupPart(Part):
    """The treatments with the same fixed levels."""

    label: str
    treatments: Annotated[list[TreatmentPart], From("counts")]
    comparisons: list[ComparisonPart]


class CountsDocument(Part):
    """The instruction counts of an experiment."""

    document_schema: str = Field(alias="schema")
    run: Annotated[str, From("run.id")]
    origin: Annotated[Origin, From("run.origin")]
    experiment: str
    scale: Annotated[str, From("run.scale")]
    command: Annotated[str, From("run.millrace_command")]
    valgrind: Annotated[str, From(lambda found: found.run.versions.get("valgrind", ""))]
    starts: int
    groups: list[GroupPart]
    notes: list[str]


def as_json(found: CountedRun) -> dict[str, Any]:
    """Return the counts of a run as one document."""
    lines = [*imported_notes(found.run), *notes(found.groups)]
    document = part(CountsDocument, found, schema=VERSION, notes=lines)
    return document.model_dump(mode="json", by_alias=True)
