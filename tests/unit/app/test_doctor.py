"""Test the doctor's findings on several kinds of hosts."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.app import doctor, host_activity
from millrace.app.host_activity import Activity, Process
from millrace.errors import Unavailable
from millrace.host import facts as host
from millrace.host.parsers import CpuTimes
from millrace.loadgen.cpu_idle import IdleLatency
from millrace.model.host_facts import Finding, HostFacts
from tests.support import host_trees as trees
from tests.support.called import millrace

QUIET = Activity(
    busy_share=0.01,
    steal_share=0.0,
    busiest=(),
    databases=(),
    on_battery=None,
    throttled=0,
    perf_paranoid=1,
    perf_program="/usr/bin/perf",
    valgrind="3.19.0",
    no_tracing=None,
    is_root=False,
    unconfined=(),
    open_files=1_048_576,
    processes=None,
)
GOOD: dict[str, str] = {
    **trees.SERVER,
    **{f"{trees.CPU}/cpu{cpu}/cpufreq/scaling_governor": "performance" for cpu in range(8)},
    f"{trees.CPU}/intel_pstate/no_turbo": "1",
    "proc/meminfo": "MemTotal: 1000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
}
del GOOD["sys/devices/system/node/node1/cpulist"]


ALERT = (IdleLatency(0, 4.0, 3.5), IdleLatency(1, 5.0, 4.5))
SLEEPY = (IdleLatency(0, 20.0, 18.5), IdleLatency(1, 48.0, 19.0))


def with_space(facts: HostFacts, *, total: int, free: int) -> HostFacts:
    space = facts.filesystem.replace(total_bytes=total, free_bytes=free)
    return facts.replace(filesystem=space)


def findings(
    root: Path,
    tree: dict[str, str],
    seen: Activity = QUIET,
    latencies: Sequence[IdleLatency] = ALERT,
) -> dict[str, Finding]:
    facts = host.facts(root, root=trees.plant(root, tree))
    facts = with_space(facts, total=1 << 40, free=1 << 39)
    return {
        finding.check: finding for finding in doctor.judge(facts, seen, Path("/srv"), latencies)
    }


def test_a_good_host_has_nothing_to_do(tmp_path: Path) -> None:
    found = findings(tmp_path, GOOD)
    assert {finding.status for finding in found.values()} == {"ok"}
    assert all(finding.hint is None for finding in found.values())


def test_a_server_as_delivered(tmp_path: Path) -> None:
    found = findings(tmp_path, trees.SERVER, replace(QUIET, perf_paranoid=3, throttled=12))
    warned = {check for check, finding in found.items() if finding.status == "warn"}
    assert warned == {
        "governor", "turbo", "swap", "transparent huge pages", "NUMA", "heat", "perf",
    }  # fmt: skip
    assert "no_turbo" in (found["turbo"].hint or "")
    assert found["swap"].observed == "2.0 of 8.0 GiB in use, swappiness 60"
    assert "swapoff" in (found["swap"].hint or "")
    assert found["perf"].hint == "sudo sysctl kernel.perf_event_paranoid=1"
    assert all(found[check].hint for check in warned)


def test_a_pod_on_an_overlay(tmp_path: Path) -> None:
    found = findings(tmp_path, trees.POD)
    assert found["virtual machine"].observed == "container (podman) in a virtual machine"
    assert found["CPU limit"].observed == "1.5 of 1 CPUs"
    assert "layers of a container image" in found["filesystem"].observed
    assert "MILLRACE_WORK" in (found["filesystem"].hint or "")
    assert found["governor"].status == "unknown"


@pytest.mark.parametrize(
    ("mount", "doubt"),
    [
        ("tmpfs tmpfs rw", "nothing is durable"),
        ("nfs4 box:/export rw,vers=4.2", "network"),
        ("fuse.sshfs me@box: rw", "network or another program"),
        ("ext4 /dev/sda1 rw,nobarrier", "fsync promises nothing"),
        ("xfs /dev/sda1 rw,strictatime", "access time"),
        ("ext4 /dev/sda1 rw", None),
    ],
)
def test_filesystems_that_tell_about_themselves(
    mount: str, doubt: str | None, tmp_path: Path
) -> None:
    mountinfo = {"proc/self/mountinfo": f"1 0 0:9 / / rw,relatime - {mount}\n"}
    finding = findings(tmp_path, GOOD | mountinfo)["filesystem"]
    assert finding.status == ("warn" if doubt else "ok")
    assert (doubt or "ext4 at /") in finding.observed


def test_tracing_that_wants_a_command(tmp_path: Path) -> None:
    seen = replace(QUIET, no_tracing=Unavailable("only root may trace", hint="sudo mount it"))
    finding = findings(tmp_path, GOOD, seen)["kernel tracing"]
    assert (finding.status, finding.hint) == ("warn", "sudo mount it")
    seen = replace(QUIET, no_tracing=Unavailable("this kernel traces no events"))
    finding = findings(tmp_path, GOOD, seen)["kernel tracing"]
    assert (finding.status, finding.hint) == ("unknown", None)


def test_servers_that_cannot_be_confined_are_named(tmp_path: Path) -> None:
    seen = replace(QUIET, unconfined=("no mount namespace (not permitted)",))
    finding = findings(tmp_path, GOOD, seen)["confinement"]
    assert (finding.status, finding.observed) == ("warn", "no mount namespace (not permitted)")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root confines servers")
def test_a_root_without_the_capability_learns_why() -> None:
    script = "from millrace.servers.instances import confinement; print(confinement.lacking())"
    ran = subprocess.run(
        ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "no mount namespace (Operation not permitted)" in ran.stdout


@pytest.mark.parametrize(
    ("share", "busy", "steal"),
    [(0.004, "ok", "ok"), (0.02, "ok", "warn"), (0.06, "warn", "problem"),
     (0.3, "problem", "problem"), (None, "unknown", "unknown")],
)  # fmt: skip
def test_load_and_steal_by_their_share(
    share: float | None, busy: str, steal: str, tmp_path: Path
) -> None:
    seen = replace(
        QUIET, busy_share=share, steal_share=share, busiest=(Process(7, "rsync", 0.875),)
    )
    found = findings(tmp_path, GOOD, seen)
    assert (found["other load"].status, found["steal time"].status) == (busy, steal)
    assert share is None or "rsync (pid 7) 88%" in found["other load"].observed


def test_what_else_can_be_wrong(tmp_path: Path) -> None:
    seen = replace(
        QUIET,
        databases=(Process(8, "postgres"),),
        on_battery=True,
        perf_program=None,
        open_files=1_024,
        processes=1_000,
    )
    slow = {
        "proc/sys/kernel/randomize_va_space": "0",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet",
    }
    found = findings(tmp_path, GOOD | slow, seen)
    status = {check: finding.status for check, finding in found.items() if finding.status != "ok"}
    assert status.pop("power") == "problem"
    assert set(status.values()) == {"warn"}
    assert status.keys() == {
        "other databases", "clock source", "address layout", "perf", "open files", "processes",
    }  # fmt: skip
    assert found["other databases"].observed == "postgres (pid 8)"


@pytest.mark.parametrize(
    ("latencies", "status", "observed"),
    [
        (ALERT, "ok", "CPU 1 5 µs (4 kept awake), CPU 0 4 µs (4 kept awake)"),
        (SLEEPY, "warn", "CPU 1 48 µs (19 kept awake), CPU 0 20 µs (18 kept awake)"),
        ((), "unknown", "it could not be measured"),
        (SLEEPY * 4, "warn", "CPU 1 48 µs (19 kept awake), 4 faster ones"),
    ],
)
def test_cpus_that_sleep(
    latencies: Sequence[IdleLatency], status: str, observed: str, tmp_path: Path
) -> None:
    found = findings(tmp_path, GOOD, latencies=latencies)["CPU wake-up"]
    assert found.status == status
    assert found.observed.endswith(observed)


@pytest.mark.parametrize(
    ("free", "status"), [(1 << 40, "ok"), (9 << 30, "warn"), (1 << 29, "problem")]
)
def test_free_disk(free: int, status: str, tmp_path: Path) -> None:
    facts = host.facts(tmp_path, root=trees.plant(tmp_path, GOOD))
    facts = with_space(facts, total=2 << 40, free=free)
    found = {f.check: f for f in doctor.judge(facts, QUIET, Path("/srv"), ALERT)}
    assert found["free disk"].status == status


def test_shares_of_cpu_time() -> None:
    before, after = CpuTimes(100, 1000, 10), CpuTimes(130, 1060, 20)
    assert host_activity.shares(before, after) == (0.3, 0.1)
    assert host_activity.shares(before, before) == (None, None)
    assert host_activity.shares(None, after) == (None, None)


def test_the_busiest_processes_come_first_and_idle_ones_not_at_all() -> None:
    per_s = os.sysconf("SC_CLK_TCK")
    before = {1: ("init", 5), 2: ("a", 0), 3: ("b", 0), 4: ("gone", 0)}
    after = {1: ("init", 5), 2: ("a", per_s), 3: ("b", 2 * per_s), 5: ("new", 9 * per_s)}
    assert host_activity.busiest(before, after, 2.0) == (Process(3, "b", 1.0), Process(2, "a", 0.5))


def test_databases_are_known_by_their_program(tmp_path: Path) -> None:
    def process(pid: int, *arguments: str, parent: int = 1) -> dict[str, str]:
        return {
            f"proc/{pid}/cmdline": "\0".join(arguments) + "\0",
            f"proc/{pid}/stat": f"{pid} (x) S {parent} 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 9\n",
        }

    loader = ("/opt/lib/ld-linux-x86-64.so.2", "--library-path", "/opt/lib")
    root = trees.plant(
        tmp_path,
        process(10, "/usr/sbin/mysqld", "--no-defaults")
        | process(11, *loader, "/opt/sbin/mariadbd", "--port=1")
        | process(12, "/usr/lib/postgresql/15/bin/postgres", "-D", "/data")
        | process(13, "postgres: checkpointer ", parent=12)
        | process(14, "vim", "/usr/sbin/mysqld")
        | process(15, ""),
    )
    assert [(p.pid, p.name) for p in host_activity.observe(root, 0.0).databases] == [
        (10, "mysqld"),
        (11, "mariadbd"),
        (12, "postgres"),
    ]


@pytest.mark.parametrize(("tree", "on_battery"), [(trees.LAPTOP, True), (trees.SERVER, None)])
def test_a_battery_is_seen(tree: dict[str, str], on_battery: bool | None, tmp_path: Path) -> None:
    seen = host_activity.observe(trees.plant(tmp_path, tree), 0.0)
    assert seen.on_battery is on_battery
    plugged = trees.plant(tmp_path, tree | {"sys/class/power_supply/AC/online": "1\n"})
    assert host_activity.observe(plugged, 0.0).on_battery is (None if on_battery is None else False)


def test_this_host_is_examined_and_the_docs_explain_every_check(tmp_path: Path) -> None:
    found = doctor.examine(host.facts(tmp_path), tmp_path, sample_s=0.1)
    page = Path(__file__).parents[3] / "docs" / "doctor.md"
    explained = re.findall(r"\*\*([^*]+?)\.?\*\*", page.read_text(encoding="utf-8"))
    assert {finding.check for finding in found} == set(explained)
    assert all(finding.observed and finding.why for finding in found)


def test_the_command_shows_and_never_fails() -> None:
    text = millrace("doctor", status=0)
    assert "transparent huge pages" in text.stdout
    document = millrace("doctor", "--json", status=0)
    shown = json.loads(document.stdout)
    assert {"host_id", "facts", "findings"} == set(shown)
    assert {"check", "status", "observed", "why", "hint"} == set(shown["findings"][0])
