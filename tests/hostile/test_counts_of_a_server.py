"""Test that what a server leaves in the place of callgrind's dumps takes little memory and time."""

from pathlib import Path

import pytest

from millrace.collect.counting import callgrind
from millrace.errors import TrialFailed
from millrace.model.instruction_counts import CountedStart, Repetition, StoredCounts, stored_counts


def dump(*paths: str) -> list[bytes]:
    lines = [line for n, path in enumerate(paths, start=1) for line in (f"fn=({n}) {path}", "0 1")]
    text = "\n".join(["positions: line", "events: Ir", *lines, f"totals: {len(paths)}", ""])
    return text.encode().splitlines(keepends=True)


@pytest.mark.parametrize("functions", [257, 200_000, 1_000_000])
def test_a_path_is_no_deeper_than_callgrinds(functions: int) -> None:
    with pytest.raises(ValueError, match="more functions than any server's"):
        callgrind.parse(dump("'" * (functions - 1)))


def test_all_paths_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callgrind, "_MOST_OF_PATHS", 500)
    assert callgrind.parse(dump("'".join("abc" * 80), "'".join("cba" * 80))).total == 2
    with pytest.raises(ValueError, match="more functions than any server's"):
        callgrind.parse(dump("'".join("abc" * 80), "'".join("cba" * 80), "'".join("bca" * 80)))


def test_all_dumps_together_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"".join(dump("free'main"))
    place = tmp_path / "tmp"
    place.mkdir()
    for thread in range(1, 6):
        (place / f"callgrind.out.1-{thread:02}").write_bytes(content)
    assert len(callgrind.read_dumps(place)[1]) == 5
    monkeypatch.setattr(callgrind, "_MOST_BYTES", 3 * len(content))
    with pytest.raises(TrialFailed, match=r"out\.1-04, .*all files so far have"):
        callgrind.read_dumps(place)


def test_paths_share_their_callers_as_they_are_stored() -> None:
    paths = {("main", "send"): 2.0, ("main",): 1.0, ("main", "send", "copy"): 4.0, ("idle",): 8.0}
    start = CountedStart(
        1, (Repetition(instructions=15.0, background=0.0),), paths, {"copy": "libc.so"}
    )
    kept = StoredCounts.model_validate(stored_counts(start, None, "3.24"))
    assert kept.callers == (-1, 0, 1, -1)
    assert (kept.start().paths, kept.start().files) == (paths, {"copy": "libc.so"})
