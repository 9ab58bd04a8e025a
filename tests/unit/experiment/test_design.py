"""Test the number of blocks of an experiment, set by the file, a scale or the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.experiment.read import Overrides
from tests.unit.experiment.files import SMALL, read_text

ONE_SERVER = SMALL.replace(', "mysql-5.7.22"]', "]")


@pytest.mark.parametrize(
    ("lines", "asked", "sequential", "blocks", "max_time_s"),
    [
        ("", Overrides(), True, 10, None),
        ("blocks = 20\n", Overrides(), True, 20, None),
        ("blocks = 6\n", Overrides(), True, 6, None),
        ("blocks = 5\n", Overrides(), False, 5, None),
        ("blocks = 3\n", Overrides(), False, 3, None),
        ("", Overrides(blocks=20), False, 20, None),
        ("", Overrides(max_blocks=30), True, 30, None),
        ("", Overrides(max_blocks=4), False, 4, None),
        ("", Overrides(max_time_s=600.0), True, 100, 600.0),
        ("blocks = 5\n", Overrides(max_time_s=600.0), True, 100, 600.0),
        ("blocks = 200\n", Overrides(max_time_s=600.0), True, 200, 600.0),
        ("", Overrides(max_time_s=600.0, max_blocks=5), True, 5, 600.0),
        ('max_time = "1h30min"\n', Overrides(), True, 10, 5400.0),
        ('max_time = "1h30min"\n', Overrides(max_time_s=60.0), True, 100, 60.0),
        ('max_time = "1h30min"\n', Overrides(blocks=4), False, 4, None),
    ],
)
def test_who_decides_how_many_blocks_there_are(
    tmp_path: Path,
    lines: str,
    asked: Overrides,
    *,
    sequential: bool,
    blocks: int,
    max_time_s: float | None,
) -> None:
    found = read_text(tmp_path, lines + SMALL, overrides=asked)
    assert (found.sequential, found.blocks, found.max_time_s) == (sequential, blocks, max_time_s)


def test_where_nothing_is_compared_nothing_can_be_decided(tmp_path: Path) -> None:
    assert not read_text(tmp_path, ONE_SERVER).sequential


def test_a_scale_has_limits_of_its_own(tmp_path: Path) -> None:
    scales = '[scales.short]\nblocks = 8\nmax_time = "10min"\n[scales.long]\n'
    text = f'max_time = "2h"\n{SMALL}{scales}'
    short, long = (read_text(tmp_path, text, scale=scale) for scale in ("short", "long"))
    assert (short.blocks, short.max_time_s) == (8, 600.0)
    assert (long.blocks, long.max_time_s) == (10, 7200.0)
