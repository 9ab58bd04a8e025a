from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from millrace.errors import UserError
from millrace.model.documents import instant
from millrace.store import run_archive


def with_end(path: Path, signature: bytes, directory_bytes: int) -> Path:
    """Return a file with the end of an archive whose two end records disagree.

    Its 64-bit record, with a right or wrong signature, gives its directory 1 byte, and its ordinary
    record gives another size.
    """
    record = struct.pack("<4sQ2H2L4Q", signature, 44, 45, 45, 0, 0, 1, 1, 1, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, directory_bytes, 0, 0)
    path.write_bytes(bytes(100) + record + locator + end)
    return path


def test_a_record_that_readers_pass_over_hides_no_large_directory(tmp_path: Path) -> None:
    path = with_end(tmp_path / "runs.zip", b"XXXX", 1 << 30)
    with pytest.raises(UserError, match="holds more than"), run_archive.opened(path):
        pass


def test_a_directory_that_lies_elsewhere_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "runs.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a.json", "{}" * 100)
    content = bytearray(path.read_bytes())
    (begin,) = struct.unpack("<L", content[-6:-2])
    content[-6:-2] = struct.pack("<L", begin + 60)  # members then begin before the file
    path.write_bytes(content)
    with pytest.raises(UserError, match="damaged"), run_archive.opened(path) as opened:
        opened.read("a.json", 1_000)


@pytest.mark.parametrize(
    "text", ["2026-W40-1T00:00:00Z", "2026-01-01 00:00:00Z", "20260101T000000.000Z"]
)
def test_an_instant_in_a_form_that_does_not_sort_as_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an instant"):
        instant(text)
