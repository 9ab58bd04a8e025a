"""Test the note that `cache_mode = "cached"` would allow slices."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.experiment.model import slices_possible
from tests.support.called import millrace
from tests.unit.experiment.files import DRIVEN, SMALL, read_text


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        (DRIVEN, True),
        (DRIVEN.replace('"point-query"', '"point-query", "update-index"'), True),  # of one test
        (DRIVEN.replace('"point-query"', '"update-index"'), False),
        (DRIVEN.replace("[compare]", "rate = [100]\n[compare]"), False),
        (DRIVEN + 'cache_mode = "cached"\n', False),  # they are in slices
        (DRIVEN + 'cache_mode = "io_bound"\n', False),
        (f'design = "slices"\n{DRIVEN}', False),
        (f'design = "interleaved"\n{DRIVEN}', False),
        (SMALL, False),
    ],
)
def test_note_names_groups_that_cached_tables_would_allow_in_slices(
    tmp_path: Path, text: str, *, possible: bool
) -> None:
    assert (slices_possible(read_text(tmp_path, text)) is not None) is possible


def test_plan_explains_missing_slices_unless_interleaved(tmp_path: Path) -> None:
    file = tmp_path / "sliced.toml"
    file.write_text(DRIVEN)
    store = ("--store", str(tmp_path / "results.sqlite"))
    said = "note: trials are interleaved. If the tables fit"
    assert said in millrace("plan", str(file), *store).stderr
    assert said not in millrace("plan", str(file), "--interleaved", *store).stderr
