"""Read the workload of an experiment: a shipped workload, or a file of the user."""

from collections.abc import Sequence
from pathlib import Path

from millrace import workloads
from millrace.errors import Diagnostic, ValidationError
from millrace.experiment.diagnostics import Diagnostics, Table, shown
from millrace.experiment.toml_files import parse_toml, read_text, with_lines
from millrace.workloads import Workload

REFERENCE = "docs/workloads.md describes every key"
_SUFFIX = ".toml"
_TABLES = ("factors", "parameters", "tables", "generators", "statements", "tests", "metrics")


def is_file(named: str) -> bool:
    """Return whether an experiment's ``workload`` is a path: contains a slash or ends in .toml."""
    return "/" in named or named.endswith(_SUFFIX)


def read_workload_file(path: Path) -> tuple[Workload, Table]:
    """Return the checked workload of the file at ``path``, and its complete definition.

    Raise UserError if the file cannot be read, ValidationError with every mistake in it.
    """
    relative = "a path is relative to the experiment file's directory"
    text = read_text(path, "workload file", example=relative)
    written = parse_toml(path, text, reference=REFERENCE)
    found = _outline_mistakes(written)
    if not found:
        try:
            definition = workloads.completed(written)
            return workloads.parse_workload(definition), definition
        except ValidationError as error:
            found = error.diagnostics
    refuse(found, str(path), text)
    raise AssertionError("there are mistakes")


def source_of(named: str, directory: Path) -> tuple[str, str]:
    """Return the path or name of a workload, and its text; empty if it cannot be read now."""
    if not is_file(named):
        return f"the shipped workload {named}", workloads.text(named)
    path = directory / named
    try:
        return str(path), path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return str(path), ""


def refuse(found: Sequence[Diagnostic], source: str, text: str) -> None:
    """Raise ValidationError, with line numbers, if there are mistakes in a workload's text."""
    if found:
        raise ValidationError(source, with_lines(found, text), hint=REFERENCE)


def _outline_mistakes(written: Table) -> tuple[Diagnostic, ...]:
    """Return the mistakes where tables, or lists of tables, are required."""
    errors = Diagnostics()
    for key in (key for key in _TABLES if key in written):
        for name, each in errors.table(key, written[key]).items():
            errors.table(f"{key}.{name}", each)
    for key in ("phases", "checks"):
        listed = written.get(key, [])
        if not isinstance(listed, list):
            errors.add(key, f"{shown(listed)} is not a list of tables", f"tables [[{key}]]")
            continue
        for number, each in enumerate(listed):
            errors.table(f"{key}[{number}]", each)
    return tuple(errors.diagnostics)
