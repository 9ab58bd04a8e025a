"""Test reading what an experiment file says of collectors and profiled blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.errors import ValidationError
from millrace.experiment.read import Overrides
from tests.unit.experiment.files import SMALL, read_text


def test_all_collectors_look_on_unless_the_file_lists_them(tmp_path: Path) -> None:
    assert read_text(tmp_path, SMALL).collectors == ("threads", "disk")
    assert read_text(tmp_path, f"collectors = []\n{SMALL}").collectors == ()
    assert read_text(tmp_path, f'collectors = ["disk"]\n{SMALL}').collectors == ("disk",)
    asked = Overrides(collectors=("threads",))
    assert read_text(tmp_path, f"collectors = []\n{SMALL}", overrides=asked).collectors == (
        "threads",
    )


DRIVEN = SMALL.replace("load-data", "sysbench").replace("rows =", "table_size =")


def test_instructions_are_counted_when_file_or_command_requests(tmp_path: Path) -> None:
    assert read_text(tmp_path, DRIVEN).counted_starts == 0
    counted = read_text(tmp_path, f'collectors = ["instructions", "disk"]\n{DRIVEN}')
    assert (counted.collectors, counted.counted_starts) == (("disk",), 4)
    counted = read_text(tmp_path, f'collectors = ["all", "instructions"]\n{DRIVEN}')
    assert (counted.collectors, counted.counted_starts) == (("threads", "disk"), 4)
    asked = Overrides(collectors=("threads", "instructions"))
    counted = read_text(tmp_path, DRIVEN, overrides=asked)
    assert (counted.collectors, counted.counted_starts) == (("threads",), 4)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SMALL, "the workload drives no clients"),
        (
            DRIVEN.replace("[compare]", "clients = [1, 8]\n[compare]").replace(
                'base = "mysql-5.6.24"', 'factor = "clients"\nbase = 1'
            ),
            "the same instructions whatever other clients do",
        ),
    ],
)
def test_what_has_no_instructions_to_compare_is_refused(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        read_text(tmp_path, f'collectors = ["instructions"]\n{text}')
    (mistake,) = caught.value.diagnostics
    assert (mistake.where, mistake.line) == ("collectors", 1)
    assert why in mistake.message


@pytest.mark.parametrize(
    ("line", "where", "message"),
    [
        ('collectors = ["disc"]', "collectors", "unknown collector 'disc'"),
        ('collectors = "disk"', "collectors", "is not a list"),
        ("profile_blocks = -1", "profile_blocks", "-1"),
    ],
)
def test_mistakes_of_what_is_observed_are_named(
    tmp_path: Path, line: str, where: str, message: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        read_text(tmp_path, f"{line}\n{SMALL}")
    (mistake,) = caught.value.diagnostics
    assert mistake.where == where
    assert message in mistake.message


def test_a_scale_may_have_its_own_number_of_profiled_blocks(tmp_path: Path) -> None:
    text = f"profile_blocks = 3\n{SMALL}\n[scales.small]\nprofile_blocks = 0\n[scales.large]\n"
    assert read_text(tmp_path, text, scale="small").profile_blocks == 0
    assert read_text(tmp_path, text, scale="large").profile_blocks == 3
    asked = Overrides(profile_blocks=1)
    assert read_text(tmp_path, text, scale="large", overrides=asked).profile_blocks == 1
    assert read_text(tmp_path, SMALL).profile_blocks == 0
