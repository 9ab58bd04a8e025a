"""Test that the pictures of the documents match their script."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.pictures.make import PICTURES

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_its_script_makes(name: str) -> None:
    kept, made = (DOCS / "pictures" / name).read_text("utf-8"), PICTURES[name]().as_text()
    assert NUMBER.sub("#", kept) == NUMBER.sub("#", made)
    numbers = [[float(each) for each in NUMBER.findall(text)] for text in (kept, made)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.2), "the last digit may differ"


@pytest.mark.parametrize("name", PICTURES)
def test_marks_stay_inside_their_picture(name: str) -> None:
    root = ElementTree.fromstring((DOCS / "pictures" / name).read_text("utf-8"))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for mark in root.iter():
        for x, y in ((mark.get("x"), mark.get("y")), (mark.get("cx"), mark.get("cy"))):
            if x is not None and y is not None:
                assert 0 <= float(x) <= width
                assert 0 <= float(y) <= height


def test_every_picture_is_shown() -> None:
    text = (DOCS / "verdicts.md").read_text("utf-8")
    assert [name for name in PICTURES if f"](pictures/{name})" not in text] == []
