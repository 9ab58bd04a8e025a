"""Test that a server that runs as an ordinary user changes no file of that user."""

import subprocess
from pathlib import Path

import pytest

from millrace.servers.instances import confinement

# What a statement of somebody else's experiment could make a server do (``general_log_file``).
CHANGE = """
exec 2>&1
echo more >> "$1/file"
true > "$1/file"
truncate -s 0 "$1/file"
rm -f "$1/file"
mv "$1/file" data/file
mkdir "$1/directory"
rmdir "$1/empty"
echo x > "$1/new"
ln -s x "$1/link"
cat "$1/file" > data/copy
echo y > data/more && mv data/more tmp/more && rm tmp/more && rmdir data/empty && echo allowed
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    if lacking := [each for each in confinement.lacking() if "Landlock" in each]:
        pytest.skip("; ".join(lacking))
    for name in ("instance/data/empty", "instance/tmp", "home/empty"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home/file").write_text("mine")
    return tmp_path


def test_a_server_writes_in_its_own_directories_alone(place: Path) -> None:
    instance = place / "instance"
    with (place / "output").open("w+b") as output:
        process = confinement.popen(
            ["/bin/sh", "-c", CHANGE, "sh", str(place / "home")],
            uid=None, writable=[instance], env={"PATH": "/usr/bin:/bin"}, cwd=instance,
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
        assert process.wait(30) == 0
    said = (place / "output").read_text()
    assert said.endswith("allowed\n"), said
    assert sorted(each.name for each in (place / "home").iterdir()) == ["empty", "file"]
    assert (place / "home/file").read_text() == "mine"
    assert (instance / "data/copy").read_text() == "mine"


def test_the_process_that_starts_a_server_stays_free(place: Path) -> None:
    with (place / "output").open("w+b") as output:
        confinement.popen(
            ["/bin/true"],
            uid=None, writable=[], env={}, cwd=place,
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        ).wait(30)  # fmt: skip
    (place / "home/new").write_text("x")
    subprocess.run(["/bin/rm", str(place / "home/new")], check=True)
