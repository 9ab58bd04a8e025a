"""Test data sets: the checksum matches the bytes and is stored; a file is whole or missing."""

import json
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.errors import HostError, UserError
from millrace.loadgen import datasets


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "data-checksums"


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.integers(0, 2_000), seed=st.integers(0, 2**64 - 1))
def test_the_checksum_is_that_of_the_file(tmp_path: Path, rows: int, seed: int) -> None:
    path = tmp_path / "nodes.tsv"
    datasets.write_data_file(path, "nodes", rows, seed)
    text = path.read_bytes()
    lines = text.splitlines()
    checksum = datasets.data_checksum("nodes", rows, seed)
    assert (checksum.rows, checksum.bytes) == (rows, len(text)) == (len(lines), len(text))
    assert checksum.checksum == sum(zlib.crc32(line) for line in lines)
    assert checksum.data_version == datasets.versions()["data"]


def test_a_checksum_is_kept_and_a_broken_one_is_computed_again(cache: Path) -> None:
    first = datasets.data_checksum("nodes", 100, 1)
    (known,) = cache.iterdir()
    kept = json.loads(known.read_text())
    known.write_text(json.dumps({**kept, "checksum": 42}))
    assert datasets.data_checksum("nodes", 100, 1).checksum == 42
    for broken in ("", "{}", "[1]", json.dumps({**kept, "more": 1})):
        known.write_text(broken)
        assert datasets.data_checksum("nodes", 100, 1) == first
    assert list(cache.iterdir()) == [known]


def test_a_cache_that_cannot_be_written_is_no_error(cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the directory should be")
    assert datasets.data_checksum("nodes", 10, 1).rows == 10


def test_an_unknown_set_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError, match="no data set 'ways'") as caught:
        datasets.data_checksum("ways", 10, 1)
    assert "nodes" in (caught.value.hint or "")


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="No such file or directory"):
        datasets.write_data_file(tmp_path / "absent" / "nodes.tsv", "nodes", 10, 1)
    full = tmp_path / "nodes.tsv"
    full.symlink_to("/dev/full")
    with pytest.raises(HostError, match="No space left on device"):
        datasets.write_data_file(full, "nodes", 100_000, 1)
    assert list(tmp_path.glob("*.tsv")) == []
