"""Test the CPU time that affinity and control groups allow a process."""

import os
import subprocess
from pathlib import Path

import pytest

from millrace.host import cpu_limits
from tests.support.host_trees import plant


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/7/cgroup": "0::/db\n", "sys/fs/cgroup/db/cpu.max": "max 100000\n"}, None),
        ({"proc/7/cgroup": "0::/db\n", "sys/fs/cgroup/db/cpu.max": "150000 100000\n"}, 1.5),
        (
            {
                "proc/7/cgroup": "0::/pod/db\n",
                "sys/fs/cgroup/pod/db/cpu.max": "max 100000\n",
                "sys/fs/cgroup/pod/cpu.max": "50000 100000\n",
            },
            0.5,
        ),
        ({"proc/7/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2.0),
        (
            {
                "proc/7/cgroup": "4:cpu,cpuacct:/db\n0::/\n",
                "sys/fs/cgroup/cpu/db/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu/db/cpu.cfs_period_us": "100000\n",
            },
            3.0,
        ),
        (
            {
                "proc/7/cgroup": "4:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
    ],
)
def test_quotas(files: dict[str, str], expected: float | None, tmp_path: Path) -> None:
    assert cpu_limits.quota_cpus("7", plant(tmp_path, files)) == expected


def test_the_cpus_of_a_process() -> None:
    mine = os.sched_getaffinity(0)
    with subprocess.Popen(["sleep", "60"]) as process:
        assert cpu_limits.allowed_cpus(process.pid) == len(mine)
        os.sched_setaffinity(process.pid, {min(mine)})
        assert cpu_limits.allowed_cpus(process.pid) == 1
        process.kill()
        process.wait()
        assert cpu_limits.allowed_cpus(process.pid) is None
