"""Test that a workload's mistakes are found as a whole before anything starts."""

import copy
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.campaign import workload_check
from millrace.errors import Diagnostic, MillraceError, ValidationError
from millrace.experiment import workload_file
from millrace.experiment.plan import expand
from tests.support.experiment_files import CONTEXT, experiment_text, parsed, read_text
from tests.unit.experiment.test_workload_file import WORKLOAD

CHECKED = replace(CONTEXT, check_workload=workload_check.refuse_mistakes)
GENERATORS = "[generators]\nany = { kind = 'integer', low = 1, high = 1000 }\n\n[statements]"


def mistakes(directory: Path, text: str) -> list[Diagnostic]:
    """Return the mistakes for which a workload is refused."""
    (directory / "mine.toml").write_text(text)
    with pytest.raises(ValidationError) as refused:
        read_text(directory, experiment_text("mine.toml"), context=CHECKED)
    assert refused.value.source == str(directory / "mine.toml")
    return list(refused.value.diagnostics)


def test_workload_without_mistakes_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(WORKLOAD)
    read_text(tmp_path, experiment_text("mine.toml"), context=CHECKED)


@pytest.mark.parametrize(
    ("written", "wrong", "place", "line", "message"),
    [
        ('kind = "sequence"', 'kind = "date"', "tables.t.columns[0].kind", 15, "variant `date`"),
        ("rows = 1000", 'rows = "{rowz}"', "tables.t.rows", 13, "unknown value"),
        ("rows = 1000", 'rows = "1/0"', "tables.t.rows", 13, "has no value"),
        ("rows = 1000", "rows = -1", "tables.t.rows", 13, "is not 0 to"),
        ("rows = 1000", "rows = [1]", "tables.t.rows", 13, ""),
        ('statements = ["look"]', 'statements = ["loook"]', "tests.look.steps[0].statements[0]",
         23, "did you mean \"look\""),
        ("WHERE id = 1", "WHERE id = ?", "statements.look.parameters", 18, "1 question marks"),
        ('WHERE id = 1"', 'WHERE id = ?", parameters = ["any"]', "statements.look.parameters[0]",
         18, "unknown generator"),
        ('tables = "t"', 'tables = "u"', "tests.look.tables", 22, "\"u\""),
        ("{engine}", "{enginee}", "tables.t.create", 14, "did you mean \"engine\""),
    ],
)  # fmt: skip
def test_mistake_is_found_with_its_line(
    tmp_path: Path, written: str, wrong: str, place: str, line: int, message: str
) -> None:
    assert written in WORKLOAD
    [found] = mistakes(tmp_path, WORKLOAD.replace(written, wrong))
    assert (found.where, found.line) == (place, line)
    assert message in found.message


def test_mistakes_of_several_parts_are_found_together(tmp_path: Path) -> None:
    text = WORKLOAD.replace('kind = "sequence"', 'kind = "date"')
    text = text.replace("[statements]", GENERATORS.replace("'integer'", "'integr'"))
    found = mistakes(tmp_path, text)
    assert [each.where for each in found] == ["tables.t.columns[0].kind", "generators.any.kind"]


def test_mistake_in_a_test_that_is_not_measured_is_found(tmp_path: Path) -> None:
    other = (
        '[tests.other]\ntitle = "x"\nmix = [{ name = "a", weight = -1, steps = [] }]\n\n[[phases]]'
    )
    [found] = mistakes(tmp_path, WORKLOAD.replace("[[phases]]", other, 1))
    assert found.where.startswith("tests.other.mix[0]")


def test_place_of_a_key_with_dots_in_names() -> None:
    definition = {"tests": {"l.i0": {"mix": [{"name": "a.b", "weight": 1}]}}, "phases": []}
    place = workload_check._place("tests.l.i0.mix.a.b.weight", definition)
    assert place == "tests.l.i0.mix[0].weight"


WRONG: list[Any] = [
    None, -1, 0, 10**30, 1.5, float("nan"), "", "{nope}", "1/0", "9**9", "(((", "?", True, [], {},
    ["a"], {"a": 1}, {"by": "engine"}, {"by": 1, "default": 2}, "é\u202e\n", "a[b",
]  # fmt: skip


def _places(part: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value within a definition."""
    members = part.items() if isinstance(part, dict) else enumerate(part)
    for key, each in members:
        yield (*place, key)
        if isinstance(each, dict | list):
            yield from _places(each, (*place, key))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_changed_workload_is_refused_with_its_place_or_planned(data: st.DataObject) -> None:
    definition = copy.deepcopy(tomllib.loads(WORKLOAD.replace("[statements]", GENERATORS)))
    *outer, last = data.draw(st.sampled_from(sorted(_places(definition), key=repr)))
    part: Any = definition
    for key in outer:
        part = part[key]
    wrong = data.draw(st.sampled_from(WRONG))
    if wrong is None:
        del part[last]
    else:
        part[last] = copy.deepcopy(wrong)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(workload_file, "read_text", lambda *_, **__: "")
        patched.setattr(workload_file, "parse_toml", lambda *_, **__: definition)
        try:
            read_experiment = parsed(experiment_text("mine.toml"), context=CHECKED)
        except MillraceError:
            return  # any other exception is a defect
        assert expand(read_experiment, seed=1).trials
