"""Read and write an attempt's histograms: a JSON list of records, which only analyses decode."""

from collections.abc import Iterator

from pydantic import TypeAdapter, ValidationError

from millrace import safe_json
from millrace.model.documents import EXACT
from millrace.store import checked
from millrace.store.checked import OF_A_FILE, NotARecord
from millrace.store.records import AttemptResult, HistogramRecord, NewArtefact

KIND = "histograms"
ROLE = "client"

_RECORDS = TypeAdapter(tuple[HistogramRecord, ...], config=EXACT)


def as_artefact(result: AttemptResult) -> Iterator[NewArtefact]:
    """Yield the file to store for an attempt; nothing without histograms."""
    if result.histograms:
        yield NewArtefact(KIND, ROLE, _RECORDS.dump_json(result.histograms))


def parse(content: bytes) -> tuple[HistogramRecord, ...]:
    """Return the records in a file's bytes; raise ValueError for invalid ones."""
    try:
        return _RECORDS.validate_json(content)
    except ValidationError as error:
        raise NotARecord(checked.first_problem(error)) from error


def check(content: bytes) -> None:
    """Raise ValueError for bytes beyond the limits, of wrong types, or with counts below 0."""
    safe_json.parse(content, OF_A_FILE)
    for each in checked.from_json(tuple[HistogramRecord, ...], content):
        if each.count < 0 or not 0 <= each.sum_s <= _LONGEST_S:
            raise NotARecord(f"{each.name} has a count of {each.count} and {each.sum_s} s")


_LONGEST_S = 1e12
