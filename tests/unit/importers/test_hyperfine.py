"""Test the import of hyperfine's exports."""

import json
import os
from pathlib import Path

import pytest

from millrace.errors import UserError
from millrace.importers import hyperfine
from millrace.importers.paired import Value
from tests.support.benchmark_outputs import exported, keep


def test_a_call_of_hyperfine_is_a_block(tmp_path: Path) -> None:
    files = [
        exported(
            tmp_path / f"{number}.json",
            {"command": "old", "mean": 1.5 + number, "times": [1.0, 2.0]},
            {"command": "new", "mean": 2.5 + number, "times": [2.0, 3.0]},
        )
        for number in range(2)
    ]
    assert hyperfine.read(files).values == (
        Value("1", "old", 1.5), Value("1", "new", 2.5),
        Value("2", "old", 2.5), Value("2", "new", 3.5),
    )  # fmt: skip


def test_version_2_of_hyperfine_exports_measurements(tmp_path: Path) -> None:
    times = [{"time_wall_clock": {"value": s, "unit": "second"}} for s in (1.0, 2.0, 6.0)]
    result = {"command": "sleep 1", "name": "nap", "measurements": times}
    assert hyperfine.read([exported(tmp_path / "a.json", result)]).values == (
        Value("1", "nap", 3.0),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "has no results of hyperfine"),
        ('{"results": []}', "has no results of hyperfine"),
        ('{"results": [{"mean": 1.0}]}', r"results\[0\] has no command"),
        ('{"results": [{"command": "a"}]}', r"results\[0\] \(a\) has no times"),
        ('{"results": [{"command": "a", "mean": NaN}]}', "NaN is not a valid JSON number"),
        ('{"results": [{"command": "a", "measurements": [{}]}]}', "has no times"),
        ('{"results": [{"command": "a", "mean": true}]}', "has no times"),
        ('{"results": [{"command": "a", "mean": 0}]}', "a time of 0 s has no ratio"),
        ('{"results": [{"command": "a", "mean": 1}, {"command": "a", "mean": 1}]}', "twice"),
    ],
)
def test_what_is_not_of_hyperfine_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        hyperfine.read([keep(tmp_path / "a.json", text)])
    assert "a.json" in caught.value.message
    assert caught.value.hint


def test_very_many_commands_of_hyperfine_are_read(tmp_path: Path) -> None:
    results = [{"command": f"c{number}", "mean": 1.0} for number in range(150_000)]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"results": results}), "utf-8")
    assert len(hyperfine.read([path]).values) == 150_000


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"mean": 1.0, "exit_codes": [1, 1, 1]}, "3 of 3 runs: exit status 1, 1, 1$"),
        ({"mean": 1.0, "exit_codes": [0, 0, 1]}, "1 of 3 runs: exit status 1$"),
        ({"mean": 1.0, "exit_codes": [137]}, "1 of 1 run: exit status 137$"),
        ({"mean": 1.0, "exit_codes": [None, 0]}, "1 of 2 runs: killed by a signal$"),
        (
            {"mean": 1.0, "exit_codes": [None, 1, 0]},
            "2 of 3 runs: exit status 1; killed by a signal$",
        ),
        ({"measurements": [{"exit_code": code} for code in (0, 3)]}, "1 of 2 runs: exit status 3$"),
    ],
)
def test_commands_that_failed_are_refused(
    tmp_path: Path, result: dict[str, object], said: str
) -> None:
    old = {"command": "old", "mean": 1.0, "exit_codes": [0, 0, 0]}
    new = {"command": "new", **result}
    files = [exported(tmp_path / f"{block}.json", old, new) for block in range(3)]
    with pytest.raises(
        UserError, match=rf"0\.json, results\[1\] \(new\) failed in {said}"
    ) as caught:
        hyperfine.read(files)
    assert "--ignore-failure" in (caught.value.hint or "")


def piped(text: str) -> int:
    """Return the end of a pipe from which ``text`` can be read once."""
    reads, writes = os.pipe()
    with os.fdopen(writes, "w", encoding="utf-8") as pipe:
        pipe.write(text)
    return reads


@pytest.mark.parametrize("second", [1.0, 1.5])
def test_files_of_hyperfine_are_read_from_pipes_and_refused_if_equal(second: float) -> None:
    texts = [json.dumps({"results": [{"command": "old", "mean": mean}]}) for mean in (1.0, second)]
    ends = [piped(text) for text in texts]
    paths = [Path(f"/dev/fd/{end}") for end in ends]
    try:
        if second == 1.0:
            with pytest.raises(UserError, match="identical contents"):
                hyperfine.read(paths)
        else:
            assert [each.value for each in hyperfine.read(paths).values] == [1.0, 1.5]
    finally:
        for end in ends:
            os.close(end)


def test_scans_of_one_name_are_distinguished_by_parameters(tmp_path: Path) -> None:
    results = [
        {"command": "load", "mean": float(n), "parameters": {"threads": str(n)}} for n in (1, 8)
    ]
    found = hyperfine.read([exported(tmp_path / "a.json", *results)]).values
    assert [each.treatment for each in found] == ["load (threads=1)", "load (threads=8)"]


def test_one_file_of_hyperfine_given_twice_is_refused(tmp_path: Path) -> None:
    results = ({"command": "old", "mean": 1.0}, {"command": "new", "mean": 2.0})
    files = [exported(tmp_path / f"{block}.json", *results) for block in range(2)]
    with pytest.raises(UserError, match="identical contents"):
        hyperfine.read(files)
