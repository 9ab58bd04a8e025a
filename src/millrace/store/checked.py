"""Validate records from a store, which may be damaged, and from exported files.

An invalid record raises NotARecord. A valid one has all keys that reports read.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any, TypeGuard, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from millrace import safe_json
from millrace.levels import Values
from millrace.model import measurements as names
from millrace.model.documents import instant
from millrace.model.run_spec import MOST_BLOCKS, RunSpec
from millrace.store.history_records import ChangeRecord, HistoryPart, PointRecord, SeriesRecord
from millrace.store.records import RunRecord, StoredAttempt, StoredRun

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

# Ratios, and squares of ratios, of values within these limits are finite.
_LARGEST, _SMALLEST = 1e20, 1e-20
_LONGEST_ERROR_CODE = 9
_MOST_WORK = 1 << 53  # transactions or rows: the largest count that a float represents exactly
_WORK_OF_CLIENTS = frozenset(
    (
        names.TRANSACTIONS, names.ERRORS, names.RETRIES, names.LATE, names.SKIPPED,
        names.SCHEDULED, names.ROWS_READ, names.ROWS_AFFECTED,
    )
)  # fmt: skip
_LONGEST_NAME = 256
_CHANGE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


# Far above any real file of an attempt.
OF_A_FILE = safe_json.Limits(
    size_bytes=64 << 20,
    values=4_000_000,
    depth=64,
    text_chars=8 << 20,
    largest=2**64 - 1,  # counters of servers
)


class NotARecord(ValueError):
    """An error for values that are not a valid record, or records that contradict each other."""


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the pydantic adapter that validates and serialises records of a type.

    It is built on first use: the adapter of StoredRun takes 0.1 s, and most commands do not use it.
    """
    return TypeAdapter(kind)


def record(kind: type[T], /, **values: Any) -> T:
    """Build a record from plain values and other records; raise NotARecord for wrong types."""
    try:
        made: T = adapter(cast(Any, kind)).validate_python(values)
    except ValidationError as error:
        raise NotARecord(f"{kind.__name__}: {first_problem(error)}") from error
    return made


def from_json(kind: type[T], content: bytes) -> T:
    """Build a record from JSON without type conversion; raise NotARecord for wrong types."""
    try:
        made: T = adapter(cast(Any, kind)).validate_json(content, strict=True)
    except ValidationError as error:
        raise NotARecord(first_problem(error)) from error
    return made


def to_plain(value: object) -> Any:
    """Return a record as the plain data that is stored."""
    return adapter(cast(Any, type(value))).dump_python(value, exclude_unset=True)


def document(where: str, model: type[M], value: object) -> M:
    """Build a document; raise NotARecord, prefixed with ``where``, if the model rejects it."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise NotARecord(f"{where}.{first_problem(error)}") from error


def first_problem(error: ValidationError) -> str:
    """Return the first problem of an error, with its location if known."""
    one = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in one["loc"])
    return f"{where}: {one['msg']}" if where else one["msg"]


def valid_run(run: RunRecord) -> RunRecord:
    """Return the run; raise NotARecord if its date, names, margin or blocks are invalid."""
    _instant(f"run {run.id}: created_utc", run.created_utc)
    for name in (run.id, run.name, run.scale):
        if not name or not name.isprintable() or len(name) > _LONGEST_NAME:
            raise NotARecord(f"{name!r} is not a valid name of a run")
    if not 0 < run.margin < 1:
        raise NotARecord(f"run {run.id}: margin is {run.margin}")
    if not 0 <= run.blocks <= MOST_BLOCKS:
        raise NotARecord(f"run {run.id}: blocks is {run.blocks}")
    return run


def require_consistent_run(stored: StoredRun) -> None:
    """Raise NotARecord if parts of a run contradict each other or lack keys."""
    for problem in _contradictions(stored):
        raise NotARecord(f"run {stored.run.id}: {problem}")


def _contradictions(stored: StoredRun) -> Iterator[str]:
    spec = stored.run.spec
    treatments = {treatment.id for treatment in stored.treatments}
    yield from duplicates("treatment", [treatment.id for treatment in stored.treatments])
    for treatment in stored.treatments:
        named = treatment.levels.keys() & treatment.resolved.keys()
        missing = [name for name in spec.factor_names if name not in named]
        if missing:
            yield f"treatment {treatment.id} has no level of {missing[0]}"
        for name, level in treatment.resolved.items():
            is_configuration = name.rpartition(".")[2] == "configuration"
            if is_configuration and level not in spec.configurations:
                yield f"treatment {treatment.id} has the undefined configuration {level!r}"
        yield from _numbers(spec, spec.chosen(treatment.levels))
    trials = {trial.id for trial in stored.trials}
    for trial in stored.trials:
        if trial.treatment_id not in treatments:
            yield f"trial {trial.id} refers to the unknown treatment {trial.treatment_id}"
        if not 0 <= trial.block < MOST_BLOCKS:
            yield f"trial {trial.id} has block {trial.block}, not 0 to {MOST_BLOCKS - 1}"
    for attempt in stored.attempts:
        if attempt.trial_id not in trials:
            yield f"an attempt refers to the unknown trial {attempt.trial_id}"
        yield from _of_attempt(attempt)
    yield from duplicates("attempt", [(a.trial_id, a.number) for a in stored.attempts])
    for outcome in ("finished", None):
        ended = [a.trial_id for a in stored.attempts if a.outcome == outcome]
        yield from duplicates(f"{outcome or 'open'} attempt of trial", ended)


def _numbers(spec: RunSpec, chosen: Values) -> Iterator[str]:
    for name, most in spec.whole_numbers().items():
        value = chosen.get(name)
        if value is not None and (not _is_number(value) or not 0 <= value <= most):
            yield f"{name} is {value!r}"
    # A workload without clients may use the factor name ``rate`` for something else.
    rate = chosen.get("rate", 0) if "clients" in chosen else 0
    if not _is_number(rate) or not 0 <= rate <= _LARGEST:
        yield f"rate is {rate!r}"


def _of_attempt(attempt: StoredAttempt) -> Iterator[str]:
    where = f"attempt {attempt.number} of trial {attempt.trial_id}"
    for utc in (attempt.started_utc, attempt.ended_utc):
        if utc is not None:
            _instant(where, utc)
    if attempt.outcome == "finished" and attempt.ended_utc is None:
        yield f"{where} is finished but has no end time"
    yield from duplicates("step", [step.position for step in attempt.steps])
    yield from duplicates("role", [instance.role for instance in attempt.instances])
    yield from duplicates("measurement", [(m.role, m.name) for m in attempt.measurements])
    for step in attempt.steps:
        if not (is_measurable(step.started_s) and is_measurable(step.duration_s)):
            yield (
                f"{where}: step {step.name} has an invalid time: started at {step.started_s} s,"
                f" took {step.duration_s} s"
            )
    for measured in attempt.measurements:
        code = names.error_code(measured.name)
        is_count = measured.name in _WORK_OF_CLIENTS or code is not None
        if not is_measurable(measured.value) or (
            is_count and not 0 <= measured.value <= _MOST_WORK
        ):
            yield f"{where}: {measured.name} is {measured.value}"
        if code is not None and len(code) > _LONGEST_ERROR_CODE:
            yield f"{where}: {measured.name} has too long an error code"


def valid_series(series: SeriesRecord) -> SeriesRecord:
    """Return the series; raise NotARecord if its margin is not between 0 and 1."""
    if not 0 < series.margin < 1:
        raise NotARecord(f"series {series.id}: margin is {series.margin}")
    return series


def valid_change(change: ChangeRecord) -> ChangeRecord:
    """Return the change; raise NotARecord if one of its times or ratios is invalid."""
    where = f"change {change.id}"
    _instant(where, change.found_utc)
    _require_ratios(where, change.ratio, change.low, change.high)
    if (again := change.remeasured) is not None:
        _instant(where, again.utc)
        _require_ratios(where, again.ratio, again.low, again.high)
    return change


def require_valid_point(point: PointRecord) -> None:
    """Raise NotARecord if a point is invalid; without pydantic, since stores have many points."""
    if not all(type(getattr(point, name)) in types for name, types in _POINT_TYPES):
        raise NotARecord(f"point {point.label!r} has a value of a wrong type")
    _require_ratios(f"point {point.label}", point.ratio, point.low, point.high)
    if not (point.log_sd is None or 0 <= point.log_sd <= _LARGEST):
        raise NotARecord(f"point {point.label}: log_sd is {point.log_sd}")


def require_consistent_part(part: HistoryPart, runs: Collection[str]) -> None:
    """Raise NotARecord if points or changes are invalid or refer to something unknown."""
    for problem in _contradictions_of(part, runs):
        raise NotARecord(problem)
    for series in part.series:
        valid_series(series)
    for _, point in part.points:
        require_valid_point(point)
        require_valid_date(point.run_id, point.at_utc)
    for change in part.changes:
        valid_change(change)


def _contradictions_of(part: HistoryPart, runs: Collection[str]) -> Iterator[str]:
    known, states = {each.id for each in part.series}, {each.id for each in part.states}
    keys = [(of, point.label) for of, point in part.points]
    yield from duplicates("series", [each.id for each in part.series])
    yield from duplicates("state", [each.id for each in part.states])
    yield from duplicates("point", keys)
    yield from duplicates("point", [(of, p.run_id, p.place) for of, p in part.points])
    yield from duplicates("change", [change.id for change in part.changes])
    for of, point in part.points:
        if of not in known or point.state not in states or point.run_id not in runs:
            yield f"point {point.label} refers to an unknown series, state or run"
    of_points = set(keys)
    for change in part.changes:
        # Reports print commands that contain the id, so a shell must not interpret it.
        if _CHANGE_ID.fullmatch(change.id) is None:
            yield f"{change.id!r} is not a valid id of a change"
        if (change.series, change.label) not in of_points:
            yield f"change {change.id} refers to an unknown point"


_POINT_TYPES = tuple(
    (name, frozenset(types))
    for names, types in (
        (("label",), (str,)),
        (("build",), (str, type(None))),
        (("level",), (str, int, float, bool)),
        (("place", "n_blocks"), (int,)),
        (("ratio",), (float, int)),
        (("low", "high", "log_sd"), (float, int, type(None))),
    )
    for name in names
)


def require_valid_date(run_id: str, at_utc: str) -> None:
    """Raise NotARecord if the date of a recorded run is invalid."""
    _instant(f"recorded run {run_id!r}", at_utc)


def _require_ratios(where: str, *ratios: float | None) -> None:
    if not all(ratio is None or _SMALLEST <= ratio <= _LARGEST for ratio in ratios):
        raise NotARecord(f"{where}: a ratio is not from {_SMALLEST:g} to {_LARGEST:g}")


def clipped_ratio(value: float | None) -> float | None:
    """Return a ratio clipped to the storable range: intervals of few noisy blocks exceed it."""
    return None if value is None else min(max(value, _SMALLEST), _LARGEST)


def _instant(where: str, text: str) -> None:
    try:
        instant(text)
    except (ValueError, AttributeError) as error:
        raise NotARecord(f"{where}: {text!r} is not an instant ({error})") from error


def _is_number(value: object) -> TypeGuard[float]:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return is_whole or (isinstance(value, float) and math.isfinite(value))


def is_measurable(value: float) -> bool:
    """Return whether a measured value of a trial can be stored and read back."""
    return value == 0 or _SMALLEST <= abs(value) <= _LARGEST


def duplicates(kind: str, ids: Sequence[Any]) -> Iterator[str]:
    """Yield a message for each id that occurs more than once."""
    for name, count in Counter(ids).items():
        if count > 1:
            yield f"{kind} {name} occurs {count} times"
