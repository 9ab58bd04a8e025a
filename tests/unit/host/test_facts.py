"""Test facts of a host, read from the trees of several kinds of hosts."""

import json
import os
from pathlib import Path

import pytest

from millrace.host import facts as host
from millrace.model.host_facts import HostFacts
from tests.support import host_trees as trees


def test_a_server_of_bare_metal(tmp_path: Path) -> None:
    root = trees.plant(tmp_path, trees.SERVER, trees.SERVER_LINKS)
    facts = host.facts(tmp_path / "not" / "yet" / "there", root=root)
    assert facts.cpu.to_json() == {
        "model": "Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz",
        "vendor": "GenuineIntel",
        "microcode": "0x5003707",
        "sockets": 2,
        "cores": 4,
        "threads": 8,
    }
    assert facts.frequency.to_json() == {
        "driver": "intel_pstate",
        "governor": "powersave",
        "preference": "balance_performance",
        "turbo": True,
        "idle_driver": "intel_idle",
    }
    assert facts.kernel.release == "6.1.0-28-amd64"
    assert facts.distribution == "Debian GNU/Linux 12 (bookworm)"
    assert facts.memory.to_json() == {
        "total_bytes": 263844096 * 1024,
        "available_bytes": 201443968 * 1024,
        "swap_bytes": 8388604 * 1024,
        "swap_used_bytes": (8388604 - 6291452) * 1024,
        "swappiness": 60,
    }
    assert facts.huge_pages.to_json() == {
        "transparent": "always",
        "defrag": "madvise",
        "reserved": 0,
    }
    assert facts.virtualisation.to_json() == {
        "virtual_machine": False,
        "hypervisor": None,
        "product": "Dell Inc. PowerEdge R740",
        "container": None,
    }
    assert facts.limits.to_json() == {"cpus": None, "memory_bytes": None}
    filesystem = facts.filesystem
    assert filesystem.type == "ext4"
    assert filesystem.options == ("rw", "relatime", "errors=remount-ro")
    assert filesystem.device == "nvme0n1"  # the disk, not its partition
    assert filesystem.device_model == "SAMSUNG MZQL23T8HCLS-00A07"
    assert (filesystem.rotational, filesystem.scheduler) == (False, "none")
    assert 0 < filesystem.free_bytes <= filesystem.total_bytes
    assert facts.load.average_5min == 0.31
    assert (facts.clock_source, facts.aslr) == ("tsc", 2)
    assert facts.numa.to_json() == {"nodes": 2, "balancing": True}
    assert ((facts.mitigations or {})["mds"] or "").startswith("Mitigation")
    assert "0123456789abcdef" not in json.dumps(facts.to_json())  # the id of a machine is a secret


def test_a_cloud_instance_with_arm_cores(tmp_path: Path) -> None:
    facts = host.facts(tmp_path, root=trees.plant(tmp_path, trees.GRAVITON))
    assert facts.cpu.model == "Arm Neoverse-N1"
    assert (facts.cpu.threads, facts.cpu.cores) == (2, 2)
    assert facts.cpu.microcode is None
    assert facts.kernel.architecture == "aarch64"
    assert facts.distribution == "Amazon Linux 2023.6"
    assert set(facts.frequency.to_json().values()) == {None}
    assert facts.virtualisation.virtual_machine is True
    assert facts.filesystem.type == "xfs"
    assert facts.filesystem.rotational is None


def test_a_pod(tmp_path: Path) -> None:
    facts = host.facts(tmp_path, root=trees.plant(tmp_path, trees.POD))
    assert facts.limits.to_json() == {"cpus": 1.5, "memory_bytes": 1 << 32}
    assert facts.virtualisation.virtual_machine is True
    assert facts.virtualisation.container == "podman"
    assert facts.filesystem.type == "overlay"


def test_limits_of_old_control_groups(tmp_path: Path) -> None:
    facts = host.facts(tmp_path, root=trees.plant(tmp_path, trees.OLD_GROUPS))
    assert facts.limits.to_json() == {"cpus": 2.0, "memory_bytes": None}
    assert facts.virtualisation.container == "docker"


def test_a_laptop_with_an_encrypted_btrfs(tmp_path: Path) -> None:
    facts = host.facts(tmp_path, root=trees.plant(tmp_path, trees.LAPTOP, trees.LAPTOP_LINKS))
    assert facts.frequency.turbo is False
    filesystem = facts.filesystem
    assert (filesystem.type, filesystem.device) == ("btrfs", "dm-0")
    assert filesystem.rotational is False


@pytest.mark.parametrize(
    ("tree", "is_virtual", "kind"),
    [(trees.WSL, True, "WSL"), (trees.XEN, True, "xen"), (trees.METAL, False, None)],
)
def test_virtual_machines_are_detected(
    tree: dict[str, str], is_virtual: bool, kind: str | None, tmp_path: Path
) -> None:
    found = host.facts(tmp_path, root=trees.plant(tmp_path, tree)).virtualisation
    assert (found.virtual_machine, found.hypervisor) == (is_virtual, kind)


def test_facts_are_read_on_a_host_without_files(tmp_path: Path) -> None:
    facts = host.facts(tmp_path, root=tmp_path)
    assert facts.cpu.model is None
    assert facts.filesystem.type is None
    assert facts.mitigations == {}
    assert len(host.host_id(facts)) == 12


def test_this_host_has_facts_that_can_be_stored(tmp_path: Path) -> None:
    facts = host.facts(tmp_path)
    stored = json.dumps(facts.to_json(), allow_nan=False)
    assert HostFacts.model_validate(json.loads(stored)) == facts
    assert facts.cpu.threads == os.cpu_count()
    assert facts.filesystem.type
    assert facts.memory.total_bytes
    assert host.host_id(facts) == host.host_id(host.facts(tmp_path))


def test_the_host_id_outlives_updates_and_settings_but_not_another_machine(tmp_path: Path) -> None:
    def host_id(name: str, **changes: str) -> str:
        tree = trees.SERVER | {key.replace("__", "/"): value for key, value in changes.items()}
        root = trees.plant(tmp_path / name, tree, trees.SERVER_LINKS)
        return host.host_id(host.facts(tmp_path, root=root))

    same = host_id("same")
    updated = trees.SERVER["proc/cpuinfo"].replace("0x5003707", "0x5003801")
    assert same == host_id("microcode", proc__cpuinfo=updated)
    assert same == host_id("kernel", proc__sys__kernel__osrelease="6.12.1-amd64")
    assert same == host_id("load", proc__loadavg="9.0 9.0 9.0 1/1 1")
    assert same == host_id("memory", proc__meminfo="MemTotal: 263844000 kB")
    assert same != host_id("other", **{"etc__machine-id": "f" * 32})
    assert same != host_id("cpu", proc__cpuinfo=updated.replace("6248R", "6258R"))
