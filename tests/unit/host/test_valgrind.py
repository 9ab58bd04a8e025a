"""Test how valgrind is found, and its commands."""

from pathlib import Path

import pytest

from millrace.errors import HostError
from millrace.host import valgrind

DIRECTORY = Path("/srv/instance/tmp")


def programs(directory: Path, *names: str, says: str = "valgrind-3.19.0") -> str:
    """Write programs that say something; return a PATH with nothing else."""
    for name in names:
        program = directory / name
        program.write_text(f"#!/bin/sh\n{f'echo {says}' if says else 'exit 1'}\n")
        program.chmod(0o755)
    return str(directory)


def test_the_valgrind_on_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path, "valgrind", "vgdb"))
    found = valgrind.find()
    assert (found.version, found.program) == ("3.19.0", str(tmp_path / "valgrind"))
    assert f"--callgrind-out-file={DIRECTORY}/callgrind.out" in found.callgrind(DIRECTORY)
    assert found.monitor(DIRECTORY, 17, valgrind.COUNT)[-3:] == (
        "--pid=17",
        "instrumentation",
        "on",
    )


@pytest.mark.parametrize(
    ("names", "says", "said"),
    [
        ((), "", "valgrind is not installed, but counting instructions needs it"),
        (("valgrind",), "valgrind-3.19.0", "is not installed"),
        (("valgrind", "vgdb"), "something", "valgrind does not run here"),
        (("valgrind", "vgdb"), "", "valgrind does not run here"),
    ],
)
def test_its_absence_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], says: str, said: str
) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path, *names, says=says))
    with pytest.raises(HostError, match=said) as absent:
        valgrind.find()
    assert absent.value.exit_status == 4
    assert absent.value.hint is not None
    assert "package valgrind" in absent.value.hint


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("callgrind.out.3-27", (3, 27)),
        ("callgrind.out.12-01", (12, 1)),
        ("callgrind.out", None),
        ("callgrind.out.3", None),
        ("callgrind.out.3-27.gz", None),
        ("callgrind.out.1234567-1", None),
        ("vgdb-pipe-shared-mem-vgdb-17-by-root-on-host", None),
    ],
)
def test_files_of_dumps_are_known_by_their_names(
    name: str, numbers: tuple[int, int] | None
) -> None:
    assert valgrind.dump_of(name) == numbers
