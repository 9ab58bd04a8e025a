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


@pytest.mark.parametrize(
    ("line", "where", "message"),
    [
        ('collectors = ["disc"]', "collectors", "there is no collector 'disc'"),
        ('collectors = "disk"', "collectors", "is no list"),
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
