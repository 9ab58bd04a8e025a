"""Define the facts of a host that decide whether results are comparable.

A fact that the host does not report is None.
"""

from collections.abc import Mapping

from millrace.model.documents import Document, Items, Number


class CpuFacts(Document):
    """The CPUs: their model, and the numbers of sockets, cores and hardware threads."""

    model: str | None = None
    vendor: str | None = None
    microcode: str | None = None
    sockets: int | None = None
    cores: int | None = None
    threads: int | None = None


class FrequencyFacts(Document):
    """The frequency control of the CPUs; ``preference`` is the energy performance preference."""

    driver: str | None = None
    governor: str | None = None
    preference: str | None = None
    turbo: bool | None = None
    idle_driver: str | None = None


class KernelFacts(Document):
    """The running kernel."""

    release: str | None = None
    version: str | None = None
    architecture: str | None = None


class MemoryFacts(Document):
    """The memory and the swap space."""

    total_bytes: int | None = None
    available_bytes: int | None = None
    swap_bytes: int | None = None
    swap_used_bytes: int | None = None
    swappiness: int | None = None


class HugePagesFacts(Document):
    """The settings of transparent huge pages, and the number of ``reserved`` ones."""

    transparent: str | None = None
    defrag: str | None = None
    reserved: int | None = None


class VirtualisationFacts(Document):
    """The kind of machine; ``container`` is the kind of container of millrace, if any."""

    virtual_machine: bool | None = None
    hypervisor: str | None = None
    product: str | None = None
    container: str | None = None


class LimitFacts(Document):
    """The limits of the control group; ``cpus`` may be a fraction. None: unlimited."""

    cpus: Number | None = None
    memory_bytes: int | None = None


class FilesystemFacts(Document):
    """The file system of the servers' data, and its block device."""

    mount_point: str | None = None
    type: str | None = None
    options: Items[str] | None = None
    source: str | None = None
    device: str | None = None
    device_model: str | None = None
    rotational: bool | None = None
    scheduler: str | None = None
    total_bytes: int = 0
    free_bytes: int = 0


class LoadFacts(Document):
    """The load averages."""

    average_1min: Number | None = None
    average_5min: Number | None = None
    average_15min: Number | None = None


class NumaFacts(Document):
    """The number of NUMA nodes, and whether the kernel moves pages between them."""

    nodes: int | None = None
    balancing: bool | None = None


class Finding(Document):
    """The result of one check of `millrace doctor`.

    ``status`` is ``ok``, ``warn``, ``problem`` or ``unknown``. ``why`` explains how the observed
    property can affect results. ``hint`` is advice, with a command if there is one; None if
    nothing has to be done.
    """

    check: str
    status: str
    observed: str
    why: str
    hint: str | None = None


class HostFacts(Document):
    """The hardware, system and settings of a host.

    ``machine`` is a digest of the installation's id. ``limits`` are the limits of the control
    group. ``aslr`` is the kernel's address randomisation (0 to 2). ``findings`` are the results of
    `millrace doctor`, in a run's record only.
    """

    machine: str | None = None
    cpu: CpuFacts = CpuFacts()
    frequency: FrequencyFacts = FrequencyFacts()
    kernel: KernelFacts = KernelFacts()
    distribution: str | None = None
    libc: str | None = None
    memory: MemoryFacts = MemoryFacts()
    huge_pages: HugePagesFacts = HugePagesFacts()
    virtualisation: VirtualisationFacts = VirtualisationFacts()
    limits: LimitFacts = LimitFacts()
    filesystem: FilesystemFacts = FilesystemFacts()
    load: LoadFacts = LoadFacts()
    clock_source: str | None = None
    numa: NumaFacts = NumaFacts()
    aslr: int | None = None
    mitigations: Mapping[str, str | None] | None = None
    findings: Items[Finding] | None = None
