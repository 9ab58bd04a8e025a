"""Test the host's activity outside the server, and whether it disturbed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.collect import host
from millrace.collect.collectors import as_json
from millrace.collect.host import Reading
from millrace.collect.model import Target
from millrace.errors import Unavailable
from millrace.host import procfs
from millrace.model.observations import OtherProcess
from millrace.servers.attached import AttachedInstance
from tests.support import host_texts
from tests.support import host_trees as trees

TICKS = os.sysconf("SC_CLK_TCK")
OWN, SERVER, LOAD = 50, 60, 70


def process(
    name: str,
    parent: int = 1,
    ticks: int = 0,
    *,
    children: int = 0,
    started: int = 5,
    is_kernel_thread: bool = False,
) -> procfs.Stat:
    return procfs.Stat(name, "S", parent, is_kernel_thread, 0, 0, ticks, 0, children, started)


def found(
    before: Mapping[int, procfs.Stat],
    after: Mapping[int, procfs.Stat],
    server_pid: int | None = SERVER,
) -> list[OtherProcess]:
    return host.others(before, after, own_pid=OWN, server_pid=server_pid)


OURS = {
    1: process("init", 0),
    OWN: process("millrace", 40, 10),
    SERVER: process("mysqld", 1, 100),
    LOAD: process("millrace-load", OWN, 5),
    71: process("child", LOAD),
}
OURS_LATER = {
    1: process("init", 0),
    OWN: process("millrace", 40, 90, children=500),
    SERVER: process("mysqld", 1, 9_000),
    LOAD: process("millrace-load", OWN, 800),
    71: process("child", LOAD, 100),
    72: process("disable-idle-states", OWN, 5_000, started=9),
}


def test_what_is_ours_or_the_servers_is_not_other() -> None:
    assert found(OURS, OURS_LATER) == []


def test_others_are_those_that_ran() -> None:
    before = {**OURS, 90: process("rsync", 80, 7), 91: process("idle", 80, 3)}
    after = {**OURS_LATER, 90: process("rsync", 80, 27), 91: process("idle", 80, 3)}
    after[92] = process("cron", 80, 50, started=9)
    assert found(before, after) == [
        OtherProcess(name="cron", pid=92, cpu_s=50 / TICKS),
        OtherProcess(name="rsync", pid=90, cpu_s=20 / TICKS),
    ]


def test_threads_of_the_kernel_work_for_the_server() -> None:
    before = {**OURS, 9: process("kworker", 2, 0, is_kernel_thread=True)}
    after = {**OURS_LATER, 9: process("kworker", 2, 700, is_kernel_thread=True)}
    assert found(before, after) == []


def test_what_began_and_ended_meanwhile_is_its_parents() -> None:
    before = {**OURS, 80: process("make", 40, 1, children=100)}
    after = {**OURS_LATER, 80: process("make", 40, 2, children=1_100)}
    assert found(before, after) == [OtherProcess(name="make", pid=80, cpu_s=1_001 / TICKS)]


def test_what_a_process_did_before_is_taken_off_where_it_ended() -> None:
    before = {
        **OURS,
        80: process("make", 40),
        81: process("sh", 80, 3),
        82: process("cc1", 81, 900, children=10),
    }
    # sh and cc1 have ended; both used 5 more until then.
    after = {**OURS_LATER, 80: process("make", 40, children=900 + 10 + 3 + 5 + 5)}
    assert found(before, after) == [OtherProcess(name="make", pid=80, cpu_s=10 / TICKS)]


def test_another_process_of_the_same_number() -> None:
    before = {**OURS, 80: process("old", 1, 500, started=5)}
    after = {**OURS_LATER, 80: process("new", 1, 30, started=8)}
    assert found(before, after) == [OtherProcess(name="new", pid=80, cpu_s=30 / TICKS)]


def test_where_the_server_is_not_known_databases_are_taken_for_it() -> None:
    after = {**OURS_LATER, 90: process("mariadbd", 1, 40), 91: process("rsync", 1, 30)}
    assert found(OURS, after, None) == [OtherProcess(name="rsync", pid=91, cpu_s=30 / TICKS)]


@dataclass
class Simulated:
    """A process that lives and uses CPU time; a parent waits for its children."""

    pid: int
    parent: int
    started: int
    ticks: int = 0
    children: int = 0
    alive: bool = True
    below: list[int] = field(default_factory=list)


class System:
    """Processes below the first one, which does nothing itself."""

    def __init__(self) -> None:
        self.all = {1: Simulated(1, 0, 0)}
        self.now = 0
        self.worked = 0

    def step(self, what: str, which: int, ticks: int) -> None:
        self.now += 1
        living = [each for each in self.all.values() if each.alive]
        chosen = living[which % len(living)]
        if what == "fork":
            pid = len(self.all) + 1
            self.all[pid] = Simulated(pid, chosen.pid, self.now)
            chosen.below.append(pid)
        elif what == "work" and chosen.pid != 1:
            chosen.ticks += ticks
            self.worked += ticks
        elif (
            what == "end"
            and chosen.pid != 1
            and not any(self.all[pid].alive for pid in chosen.below)
        ):
            chosen.alive = False
            self.all[chosen.parent].children += chosen.ticks + chosen.children

    def look(self) -> dict[int, procfs.Stat]:
        return {
            each.pid: process(
                "p", each.parent, each.ticks, children=each.children, started=each.started
            )
            for each in self.all.values()
            if each.alive
        }


STEPS = st.lists(
    st.tuples(st.sampled_from(["fork", "work", "end"]), st.integers(0, 50), st.integers(1, 99))
)


@given(STEPS, STEPS)
def test_all_work_is_found_whoever_ended(
    earlier: Sequence[tuple[str, int, int]], later: Sequence[tuple[str, int, int]]
) -> None:
    system = System()
    for step in earlier:
        system.step(*step)
    before, worked = system.look(), system.worked
    for step in later:
        system.step(*step)
    others = host.others(before, system.look(), own_pid=999, server_pid=998)
    assert sum(other.cpu_s or 0 for other in others) * TICKS == pytest.approx(
        system.worked - worked
    )


QUIET = Reading(
    stat="cpu  1000 0 500 8000 100 0 10 0 0 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\n",
    vmstat="pswpin 5\npswpout 9\n",
    meminfo="MemAvailable: 2000 kB\nSwapTotal: 1000 kB\nSwapFree: 900 kB\n",
    group_cpu="usage_usec 5\nthrottled_usec 1000\n",
    pressure={
        "cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n",
        "io": "some avg10=0 avg60=0 avg300=0 total=2000000\n"
        "full avg10=0 avg60=0 avg300=0 total=500000\n",
    },
    frequencies_mhz=(2000.0, 2400.0),
    processes={1: host_texts.PROCESS_STAT},
)
LATER = replace(
    QUIET,
    stat="cpu  1600 0 700 8180 110 0 20 0 0 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\n",
    pressure={
        "cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1250000\n",
        "io": "some avg10=0 avg60=0 avg300=0 total=2000000\n",
    },
    frequencies_mhz=(2100.0, 2300.0),
)


def activity(before: Reading, after: Reading) -> Any:
    target = Target(cast(Any, None), None, None, "d", {}, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", lambda: OWN)
        return as_json(host.activity(before, after, target, Path("/")))


def test_the_section() -> None:
    section = activity(QUIET, LATER)
    assert section == {
        "cpu": pytest.approx(
            {
                "user_s": 600 / TICKS,
                "nice_s": 0,
                "system_s": 200 / TICKS,
                "idle_s": 180 / TICKS,
                "iowait_s": 10 / TICKS,
                "irq_s": 0,
                "softirq_s": 10 / TICKS,
                "steal_s": 0,
            }
        ),
        "cpus": 2,
        "pressure": {
            "cpu_some_s": 0.25,
            "io_some_s": 0.0,
            "io_full_s": None,
            "memory_some_s": None,
            "memory_full_s": None,
        },
        "frequency_mhz": {"min": 2000.0, "mean": 2200.0, "max": 2400.0},
        "memory": {"available_bytes": 2000 * 1024, "swap_used_bytes": 100 * 1024},
        "other_cpu_s": 0,
        "others": [],
        "disturbed": [],
        "server_limits": {"cpus": None, "quota_cpus": None},
    }


def test_a_host_that_shows_little() -> None:
    bare = Reading("cpu 1 2 3 4\n", None, None, None, {}, (), {})
    section = activity(bare, bare)
    assert (section["pressure"], section["frequency_mhz"], section["disturbed"]) == (None, None, [])
    assert section["memory"] == {"available_bytes": None, "swap_used_bytes": None}
    assert len(list(host.missing(bare))) == 2
    whole = replace(QUIET, pressure={"cpu": "", "io": "", "memory": ""})
    assert not list(host.missing(whole))


@pytest.mark.parametrize(
    ("later", "others", "clause"),
    [
        (
            replace(LATER, stat="cpu  1600 0 700 8100 110 0 20 80\ncpu0 1\n"),
            [],
            "the hypervisor gave 8.0% of the CPU time to others",
        ),
        (
            LATER,
            [
                OtherProcess(name="rsync", pid=90, cpu_s=40 / TICKS),
                OtherProcess(name="cron", pid=91, cpu_s=10 / TICKS),
            ],
            "other processes used 5.0% of the CPU time, rsync (pid 90) the most",
        ),
        (replace(LATER, vmstat="pswpin 1205\n"), [], "1,200 pages were swapped in"),
        (
            replace(LATER, group_cpu="throttled_usec 2001000\n"),
            [],
            "the control group's CPU limit stopped it for 2.0 s",
        ),
        (
            replace(LATER, frequencies_mhz=(1800.0, 2000.0)),
            [],
            "the CPUs' frequency went from 2,200 to 1,900 MHz",
        ),
    ],
)
def test_what_disturbs(later: Reading, others: list[OtherProcess], clause: str) -> None:
    assert host.disturbed(QUIET, later, others) == [clause]


def test_what_does_not_disturb() -> None:
    little = replace(
        LATER, stat="cpu  1600 0 700 8171 110 0 20 9\ncpu0 1\n", frequencies_mhz=(2150.0, 2350.0)
    )
    assert (
        host.disturbed(QUIET, little, [OtherProcess(name="rsync", pid=90, cpu_s=19 / TICKS)]) == []
    )
    # Pages swapped in before, or swapped out now, do not matter.
    assert host.disturbed(QUIET, replace(little, vmstat="pswpin 5\npswpout 99\n"), []) == []


def test_files_of_kinds_of_hosts(tmp_path: Path) -> None:
    tree = {
        **trees.SERVER,
        "proc/stat": QUIET.stat or "",
        "proc/pressure/cpu": QUIET.pressure["cpu"],
        "proc/1/stat": host_texts.PROCESS_STAT.decode(),
        "proc/notaprocess/stat": "",
        **{f"{trees.CPU}/cpu{n}/cpufreq/scaling_cur_freq": f"{3600125 + n}\n" for n in range(2)},
    }
    taken = host.take(trees.plant(tmp_path, tree))
    assert sorted(taken.frequencies_mhz) == [3600.125, 3600.126]
    assert set(taken.pressure) == {"cpu"}
    assert taken.processes == {1: host_texts.PROCESS_STAT}


def test_pressure_of_a_control_group_where_the_host_has_none(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/user.slice/user-1000.slice/session-4.scope"
    tree = {
        **trees.SERVER,
        f"{group}/io.pressure": QUIET.pressure["io"],
        f"{group}/cpu.stat": "throttled_usec 7\n",
    }
    taken = host.take(trees.plant(tmp_path, tree))
    assert taken.pressure == {"io": QUIET.pressure["io"].strip()}
    assert taken.group_cpu == "throttled_usec 7"


def test_a_host_without_figures(tmp_path: Path) -> None:
    target = Target(cast(AttachedInstance, None), None, None, "", {}, 1.0)
    (tmp_path / "proc").mkdir()
    with pytest.raises(Unavailable, match="/proc/stat"):
        host.collector(target, tmp_path)


# Its parent ends at once, so that it is an orphan while it works.
ORPHAN = """
import os, sys, time
if os.fork() == 0:
    end = time.process_time() + 0.3
    print(os.getpid(), flush=True)
    while time.process_time() < end:
        pass
    os.close(1)
    time.sleep(5)
"""


def test_this_host_and_a_process_that_is_not_ours() -> None:
    target = Target(cast(AttachedInstance, None), None, None, "", {}, 1.0)
    seen = host.collector(target)
    seen.begin()
    with pytest.raises(Unavailable, match="both marks"):
        seen.result()
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        child.wait()
        own = time.process_time() + 0.1
        while time.process_time() < own:
            pass
        child.stdout.read()  # it has used CPU time
    seen.end()
    os.kill(pid, signal.SIGKILL)
    section = as_json(seen.result().sections["host"])
    orphan = [other for other in section["others"] if other["pid"] == pid]
    # A process less busy than five others is not shown, but counted. Ticks are of 10 ms.
    assert section["other_cpu_s"] >= 0.28
    assert not orphan or orphan[0]["cpu_s"] == pytest.approx(0.3, abs=0.15)
    assert os.getpid() not in {other["pid"] for other in section["others"]}
    assert section["cpu"]["user_s"] + section["cpu"]["nice_s"] > 0
    assert section["cpus"] >= 1
    seen.close()
