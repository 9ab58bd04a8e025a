"""Test the disk under a directory, on kinds of hosts, and its activity."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.collect import disk
from millrace.collect.collectors import as_json
from millrace.collect.model import Target
from millrace.errors import Unavailable
from millrace.servers.attached import AttachedInstance
from tests.support import host_trees as trees

NVME = "sys/devices/pci0/nvme/nvme0/nvme0n1"
DISKSTATS = """\
 259       0 nvme0n1 100 1 8000 40 200 2 16000 80 0 500 120 0 0 0 0 30 60
 259       2 nvme0n1p2 90 1 7000 30 190 2 15000 70 0 490 100 0 0 0 0 0 0
 253       0 dm-0 90 0 7000 30 190 0 15000 70 0 490 100 0 0 0 0 0 0
"""


def target(data_dir: Path | None) -> Target:
    return Target(cast(AttachedInstance, None), None, data_dir, "", {}, 1.0)


def host(
    root: Path, mountinfo: str, tree: trees.Tree, links: Mapping[str, str] | None = None
) -> Path:
    return trees.plant(root, {**tree, "proc/self/mountinfo": mountinfo}, links)


def on(device: str, source: str, kind: str = "ext4") -> str:
    return f"28 1 {device} / / rw,relatime - {kind} {source} rw\n"


@pytest.mark.parametrize(
    ("mountinfo", "links", "name"),
    [
        # Only the whole disk counts a partition's flushes.
        (on("259:2", "/dev/nvme0n1p2"), {"sys/dev/block/259:2": f"{NVME}/nvme0n1p2"}, "nvme0n1"),
        (on("259:0", "/dev/nvme0n1"), {"sys/dev/block/259:0": NVME}, "nvme0n1"),
        # A logical volume on a partition.
        (
            on("253:0", "/dev/mapper/vg-data"),
            {
                "sys/dev/block/253:0": "sys/devices/virtual/block/dm-0",
                "sys/devices/virtual/block/dm-0/slaves/nvme0n1p2": f"{NVME}/nvme0n1p2",
            },
            "nvme0n1",
        ),
        # Encrypted, on that volume: two steps down. Btrfs has a device number of its own.
        (
            on("0:27", "/dev/mapper/luks", "btrfs"),
            {
                "dev/mapper/luks": "dev/dm-1",
                "sys/class/block/dm-1": "sys/devices/virtual/block/dm-1",
                "sys/devices/virtual/block/dm-1/slaves/dm-0": "sys/devices/virtual/block/dm-0",
                "sys/devices/virtual/block/dm-0/slaves/nvme0n1p2": f"{NVME}/nvme0n1p2",
            },
            "nvme0n1",
        ),
        # A volume across two disks has no single disk below it.
        (
            on("253:0", "/dev/mapper/vg-data"),
            {
                "sys/dev/block/253:0": "sys/devices/virtual/block/dm-0",
                "sys/devices/virtual/block/dm-0/slaves/nvme0n1p2": f"{NVME}/nvme0n1p2",
                "sys/devices/virtual/block/dm-0/slaves/nvme1n1": "sys/devices/pci0/nvme1n1",
            },
            "dm-0",
        ),
    ],
)
def test_disks(tmp_path: Path, mountinfo: str, links: Mapping[str, str], name: str) -> None:
    tree = {
        f"{NVME}/nvme0n1p2/partition": "2\n",
        "sys/devices/virtual/block/dm-0/size": "1\n",
        "sys/devices/virtual/block/dm-1/size": "1\n",
        "sys/devices/pci0/nvme1n1/size": "1\n",
        "dev/dm-1": "",
    }
    root = host(tmp_path, mountinfo, tree, links)
    assert disk.disk_below(tmp_path, root) == name


@pytest.mark.parametrize("kind", ["overlay", "tmpfs", "nfs4"])
def test_filesystems_without_a_disk(tmp_path: Path, kind: str) -> None:
    root = host(tmp_path, on("0:50", kind, kind), {"proc/diskstats": DISKSTATS})
    with pytest.raises(Unavailable, match=f"the data directory is on {kind}") as caught:
        disk.collector(target(tmp_path), root)
    assert "MILLRACE_WORK" in (caught.value.hint or "")


def test_a_disk_without_figures(tmp_path: Path) -> None:
    links = {"sys/dev/block/8:0": "sys/devices/sda"}
    tree = {"sys/devices/sda/size": "1\n", "proc/diskstats": DISKSTATS}
    root = host(tmp_path, on("8:0", "/dev/sda"), tree, links)
    with pytest.raises(Unavailable, match="no figures of sda"):
        disk.collector(target(tmp_path), root)


def test_a_data_directory_that_cannot_be_seen() -> None:
    with pytest.raises(Unavailable, match="cannot be seen"):
        disk.collector(target(None))


def test_what_a_disk_did(tmp_path: Path) -> None:
    tree = {f"{NVME}/size": "1\n", "proc/diskstats": DISKSTATS}
    root = host(tmp_path, on("259:0", "/dev/x"), tree, {"sys/dev/block/259:0": NVME})
    seen = disk.collector(target(tmp_path), root)
    seen.begin()
    with pytest.raises(Unavailable, match="both marks"):
        seen.result()
    after = "259 0 nvme0n1 110 1 8064 47 230 2 16640 280 1 1750 400 0 0 0 0 35 160\n"
    (root / "proc/diskstats").write_text(after)
    seen.end()
    assert as_json(seen.result().sections) == {
        "disk": {
            "device": "nvme0n1",
            "reads": 10,
            "writes": 30,
            "read_bytes": 64 * 512,
            "write_bytes": 640 * 512,
            "flushes": 5,
            "read_s": 0.007,
            "write_s": 0.2,
            "flush_s": 0.1,
            "busy_s": 1.25,
        }
    }
    seen.close()


def test_a_kernel_that_does_not_count_flushes() -> None:
    # Linux before 4.18 has 11 figures, before 5.5 it has 15.
    before = disk.figures("8 0 sda 1 0 8 1 2 0 16 2 0 3 3\n", "sda")
    after = disk.figures("8 0 sda 2 0 16 2 4 0 32 4 0 6 6\n", "sda")
    assert before is not None
    assert after is not None
    found = disk.between("sda", before, after)
    assert (found.reads, found.flushes, found.flush_s) == (1, None, None)
    assert found.busy_s == 0.003


def test_milliseconds_that_began_anew() -> None:
    before = (0, 0, 0, 2**32 - 5, 0, 0, 0, 0, 0, 0, 0)
    after = (1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0)
    assert disk.between("sda", before, after).read_s == 0.01


@pytest.mark.disk
def test_the_disk_of_this_host(tmp_path: Path) -> None:
    try:
        seen = disk.collector(target(tmp_path))
    except Unavailable as lack:
        pytest.skip(lack.message)
    seen.begin()
    with (tmp_path / "file").open("wb") as file:
        file.write(b"x" * (1 << 20))
        os.fsync(file.fileno())
    seen.end()
    found = as_json(seen.result().sections["disk"])
    assert found["writes"] > 0
    assert found["write_bytes"] >= 1 << 20


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    assert disk.figures(text, "no such device") is None
