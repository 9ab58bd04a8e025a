from pathlib import Path

import pytest

from millrace import paths
from millrace.errors import HostError
from millrace.loadgen import datasets
from millrace.servers import added, manifest, options
from millrace.servers.snapshots import manifest as snapshot_manifest

_DEEP = "[" * 100_000
_DAMAGED = [
    _DEEP,
    '{"a":' * 100_000,
    "NaN",
    "1" * 5000,
    '"\\ud800"',
    "[" + "0," * 200_000 + "0]",
    "{",
    "[]",
    "1",
    '"text"',
    "null",
]
_damaged = pytest.mark.parametrize("text", _DAMAGED, ids=range(len(_DAMAGED)))


@_damaged
def test_a_manifest_is_refused_by_its_name(text: str, tmp_path: Path) -> None:
    (tmp_path / manifest.FILE).write_text(text)
    with pytest.raises(HostError, match="cannot be read") as caught:
        manifest.read(tmp_path)
    assert len(str(caught.value)) < 1000


@_damaged
def test_a_snapshot_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / snapshot_manifest.FILE).write_text(text)
    assert snapshot_manifest.read(tmp_path) is None


@pytest.mark.parametrize(
    "text", [*_DAMAGED, '{"name": "a", "family": "mysql", "dsn": 5}'], ids=range(len(_DAMAGED) + 1)
)
def test_the_address_of_a_server_is_refused_by_its_name(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path))
    added.add_attached("theirs", "mysql", "mysql://root@127.0.0.1:3306/")
    (record,) = (path for path in tmp_path.rglob("theirs/*") if path.is_file())
    record.write_text(text)
    with pytest.raises(HostError, match=f"{record} cannot be read: it is damaged"):
        added.added("theirs")


@_damaged
def test_what_was_kept_to_save_time_is_made_again(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "options.json"
    cache.write_text(text)
    assert options._read_cache(cache) is None
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path))
    expected = datasets.data_checksum("nodes", 10, 1)
    (kept,) = (paths.cache_dir() / "data-checksums").iterdir()
    kept.write_text(text)
    assert datasets.data_checksum("nodes", 10, 1) == expected
