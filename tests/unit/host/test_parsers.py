"""Test parsers of Linux's files about a host."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.host import parsers
from tests.support import host_trees as trees


def test_the_deepest_mount_holds_a_path_and_the_last_one_hides_the_others() -> None:
    table = parsers.mounts(
        trees.SERVER["proc/self/mountinfo"]
        + "96 28 0:50 / /srv/my\\040data rw - tmpfs tmpfs rw\n"
        + "97 28 0:51 / /srv/my rw - nfs4 box:/export rw\n"
        + "not a line\n"
    )
    found = {
        path: mount.type if (mount := parsers.mount_of(path, table)) else None
        for path in ("/", "/home", "/sys/kernel", "/srv/my data/x", "/srv/my", "/srv/my dataset")
    }
    assert found == {
        "/": "ext4",
        "/home": "ext4",
        "/sys/kernel": "sysfs",
        "/srv/my data/x": "tmpfs",
        "/srv/my": "nfs4",
        "/srv/my dataset": "ext4",
    }
    assert parsers.mount_of("/", ()) is None


def test_cpu_times_of_new_and_very_old_kernels() -> None:
    new = "cpu  100 20 30 4000 50 6 7 8 900 90\ncpu0 1 2 3 4 5 6 7 8 0 0\n"
    assert parsers.cpu_times(new) == parsers.CpuTimes(busy=163, idle=4050, steal=8)
    assert parsers.cpu_times("cpu 1 2 3 4\n") == parsers.CpuTimes(busy=6, idle=4, steal=0)
    assert parsers.cpu_times("") is None
    assert parsers.cpu_times(None) is None


@given(st.text())
def test_no_text_breaks_a_parser(text: str) -> None:
    assert parsers.cpu_info(text).flags is not None
    for parse in (parsers.sizes, parsers.os_release, parsers.mounts):
        assert parse(text) is not None
    for read in (parsers.numbers, parsers.pressure_s, parsers.control_groups):
        assert read(text) is not None
    assert parsers.cpu_count(text) >= 0
    parsers.chosen(text)


@given(st.from_regex(r"/[a-z \\\t]{1,8}", fullmatch=True))
def test_escaped_mount_points_come_back(point: str) -> None:
    escaped = "".join(f"\\{ord(c):03o}" if c in " \t\n\\" else c for c in point)
    (mount,) = parsers.mounts(f"1 2 8:1 / {escaped} rw - ext4 /dev/sda1 rw\n")
    assert mount.point == point


def test_what_cpus_did_by_kind() -> None:
    text = "cpu  100 20 30 4000 50 6 7 8 900 90\ncpu0 1 2 3\ncpu1 1 2 3\nintr 1\nctxt 7\n"
    assert parsers.cpu_ticks(text) == {
        "user": 100, "nice": 20, "system": 30, "idle": 4000, "iowait": 50, "irq": 6, "softirq": 7,
        "steal": 8,
    }  # fmt: skip
    assert parsers.cpu_count(text) == 2
    old = parsers.cpu_ticks("cpu 1 2 3 4\n")
    assert old is not None
    assert (old["idle"], old["steal"]) == (4, 0)


IO_PRESSURE = """\
some avg10=4.04 avg60=2.83 avg300=2.70 total=1214101451
full avg10=3.48 avg60=2.41 avg300=2.30 total=735735882
"""
MIXED_GROUPS = "4:memory:/process/c4ef\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/user.slice/a:b\n"


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (parsers.pressure_s, IO_PRESSURE, {"some": 1214.101451, "full": 735.735882}),
        (parsers.pressure_s, None, {}),
        (parsers.numbers, "pswpin 12\npswpout 0\nnr_x -3\nodd\n", {"pswpin": 12, "pswpout": 0}),
        (
            parsers.control_groups,
            MIXED_GROUPS,
            {
                "memory": "process/c4ef", "cpu": "", "cpuacct": "", "name=systemd": "",
                "": "user.slice/a:b",
            },
        ),
        (parsers.control_groups, None, {}),
    ],
)  # fmt: skip
def test_values_are_read_by_name(
    parse: Callable[[str | None], object], text: str | None, expected: object
) -> None:
    assert parse(text) == expected
