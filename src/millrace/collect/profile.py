"""Collect a CPU profile: the call paths of the server's threads while they were on a CPU.

perf has two ways to find the callers of a function. By DWARF, it copies the stack and unwinds it
afterwards; that succeeds for nearly every sample. By frame pointers it is cheaper, but the C
library seldom keeps them: a third to more than half of the samples of short queries lose their
callers there. Frame pointers are for a perf that cannot unwind and a build that keeps them. The
code shows which: functions that keep the pointer first save their caller's and set their own. Other
instructions may come between, and functions that return early omit them; in a build without frame
pointers, almost none begin so, only those with frames of varying size.

Cost: 199 samples of each CPU in a second, fewer where there are many CPUs, each with 32 KiB of
stack: 1 to 2 % of the server's CPU time. Profiled trials are of their own and enter no verdict.
"""

from __future__ import annotations

import contextlib
import functools
import os
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from millrace.collect.model import CollectorResult, Target
from millrace.collect.profiling import folding
from millrace.collect.profiling.folding import Folded
from millrace.collect.profiling.recording import Granted, Recording, Settings
from millrace.collect.threads.thread_watch import ThreadWatch, require_process
from millrace.errors import Unavailable
from millrace.host import perf
from millrace.host.elf import data_of, opened
from millrace.host.perf import Perf
from millrace.model.observations import ProfileSamples
from millrace.model.servers import InstalledServer

_KEPT_SHARE = 0.4
_LOOKED_AT = 2000
_SHORTEST_BYTES = 64  # shorter functions jump to another one, or call none
_SEEN_BYTES = 32

_FUNCTION = 2  # STT_FUNC
_X86_64, _AARCH64 = "EM_X86_64", "EM_AARCH64"

_ENDBR64 = b"\xf3\x0f\x1e\xfa"
_PUSH_RBP = b"\x55"
_MOV_RSP_RBP = (b"\x48\x89\xe5", b"\x48\x8b\xec")

# stp x29, x30, [sp, #-N]! or, after sub sp, sp, #N, stp x29, x30, [sp, #M], for any N and M.
_STP_FP_LR, _STP_MASK = 0xA9007BFD, 0xFF407FFF
# bti c, paciasp, pacibsp
_LANDING = frozenset((0xD503245F, 0xD503233F, 0xD503237F))

NAME = "profile"
# For all CPUs together, whatever runs there: the recording lies in memory, and millrace reads it.
_STACK_BYTES = 32 * 1024
_DWARF_PER_S = 500
_FP_PER_S = 20_000

# Frequencies at which nothing else is likely to run, the highest first; the first affordable one
# applies.
_DWARF_HZ = (199, 149, 97, 61, 43, 31, 23, 17, 11, 7, 3, 1)
_FP_HZ = (997, 499, 251, 127, 61)

_NOTICEABLE_SHARE = 0.02

# A shorter recording is repeated until it has this length: 0.1 s yield at most twenty samples of
# each CPU.
ENOUGH_S = 2.0
MOST_RUNS = 20


def collector(target: Target) -> ProfileCollector:
    """Create the collector. Raise Unavailable where perf cannot sample the server's process."""
    pid = require_process(target)
    by = perf.find()
    keeps = functools.partial(_keeps_frame_pointers, target)
    settings = choose(by, os.cpu_count() or 1, keeps, servers=target.servers)
    watch = ThreadWatch(target)
    try:
        functions = target.client.family.monitoring.threads.session_functions
        return ProfileCollector(
            Recording(by, pid, settings, recordings=target.servers), settings, watch, functions
        )
    except BaseException:
        watch.close()
        raise


def require_usable() -> None:
    """Raise Unavailable where perf cannot sample a process of this host's user."""
    by = perf.find()
    settings = choose(by, os.cpu_count() or 1, lambda: False)
    Recording(by, os.getpid(), settings).close()


def choose(
    by: Perf, n_cpus: int, keeps_frame_pointers: Callable[[], bool], *, servers: int = 1
) -> Settings:
    """Return the settings with which this perf samples ``n_cpus`` CPUs.

    Each of several ``servers`` that take turns has a perf, which also samples the others' turns.
    Together they take twice as many samples as one.
    """
    share = min(1.0, 2 / servers) / n_cpus
    if by.unwinds:
        return Settings(_afforded(_DWARF_HZ, _DWARF_PER_S * share), "dwarf", _STACK_BYTES)
    frequency_hz = _afforded(_FP_HZ, _FP_PER_S * share)
    return Settings(frequency_hz, "fp" if keeps_frame_pointers() else "none")


class ProfileCollector:
    """A collector of the CPU profile; see collect.model.Collector."""

    def __init__(
        self,
        recording: Recording,
        settings: Settings,
        watch: ThreadWatch,
        session_functions: Collection[str],
    ) -> None:
        self._recording = recording
        self._session_functions = session_functions
        self._settings = settings
        self._watch = watch
        self._runs = 0

    @property
    def wants_more(self) -> bool:
        """Return whether the recording is too short; see collect.model.RepeatableCollector."""
        recording = self._recording
        return self._runs < MOST_RUNS and recording.seconds < ENOUGH_S and recording.may_resume

    def begin(self) -> None:
        self._watch.sample()
        self._recording.begin()
        self._runs += 1

    def end(self) -> None:
        self._recording.end()
        self._watch.sample()

    def result(self) -> CollectorResult:
        granted = self._recording.granted()
        folded = folding.fold(
            folding.parse(self._recording.lines()),
            self._watch.kinds(),
            self._session_functions,
            self._watch.serving,
        )
        unavailable = list(missing(granted, folded, self._settings))
        if self._recording.was_cut:
            unavailable.append(
                Unavailable(
                    f"the end of the profile: perf's memory was full after "
                    f"{self._recording.seconds:.0f} s",
                    hint="measure for a shorter time",
                )
            )
        found = ProfileSamples(
            event=granted.event,
            with_kernel=granted.with_kernel,
            frequency_hz=granted.frequency_hz,
            call_graph=self._settings.call_graph,
            samples=folded.samples,
            lost=folded.lost,
            seconds=self._recording.seconds,
            runs=self._runs,
            stacks=dict(folded.stacks),
        )
        return CollectorResult({NAME: found}, unavailable)

    def close(self) -> None:
        with contextlib.closing(self._watch):
            self._recording.close()


def missing(granted: Granted, folded: Folded, settings: Settings) -> Iterator[Unavailable]:
    """Yield the parts that a profile lacks."""
    if not granted.whole_cpus:
        yield Unavailable(
            "permission to sample whole CPUs: following threads can take a fifth of the throughput",
            hint=perf.rights(perf.FOR_WHOLE_CPUS),
        )
    if not granted.with_kernel:
        yield Unavailable("what the kernel does for the server", hint=perf.rights(perf.FOR_KERNEL))
    elif folded.unnamed_kernel > folded.kernel / 2:
        restriction = perf.setting("kptr_restrict")
        yield Unavailable(
            "the names of the kernel's functions",
            hint=f"run millrace as root, or set kernel.kptr_restrict ({restriction} now) to 0",
        )
    if folded.lost > _NOTICEABLE_SHARE * folded.samples:
        yield Unavailable(
            f"{_percent(folded.lost, folded.lost + folded.samples)} of samples, which were lost",
            hint="leave some CPU time to perf: drive fewer clients",
        )
    if settings.call_graph != "dwarf":
        yield Unavailable(
            f"the callers of {_percent(folded.samples - folded.rooted, folded.samples)} of samples",
            hint="install a perf that unwinds by DWARF (libdw or libunwind)",
        )
    for module, count in folded.unnamed.items():
        if count > _NOTICEABLE_SHARE * folded.samples:
            yield Unavailable(
                f"names of functions of {module}, in {_percent(count, folded.samples)} of samples",
                hint="install its debug symbols, or profile a build with a symbol table",
            )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def _afforded(frequencies_hz: Sequence[int], most_hz: float) -> int:
    return next((each for each in frequencies_hz if each <= most_hz), frequencies_hz[-1])


def _keeps_frame_pointers(target: Target) -> bool:
    server = target.client.server
    # The installed program: a server controls its own mappings and where its links lead.
    return isinstance(server, InstalledServer) and bool(frame_pointers_are_kept(server.program))


def frame_pointers_are_kept(program: Path) -> bool | None:
    """Return whether a program keeps frame pointers, None where unknown; raise OSError."""
    status = program.stat()
    share = _share(program, status.st_mtime_ns, status.st_size)
    return None if share is None else share >= _KEPT_SHARE


def begins_with_frame(code: bytes, machine: str) -> bool:
    """Return whether a function's code, for an ELF ``machine``, first saves the frame pointer."""
    if machine == _X86_64:
        code = code.removeprefix(_ENDBR64)
        return code[:1] == _PUSH_RBP and code[1:4] in _MOV_RSP_RBP
    if machine != _AARCH64:
        return False
    words = [word for (word,) in struct.iter_unpack("<I", code[: len(code) & ~3])]
    first = [word for word in words if word not in _LANDING][:2]
    return any(word & _STP_MASK == _STP_FP_LR for word in first)


@functools.cache
def _share(program: Path, _mtime_ns: int, _size_bytes: int) -> float | None:
    """Return the share of functions that begin with a frame; time and size distinguish builds."""
    try:
        with opened(program) as elf:
            machine = str(elf["e_machine"])
            addresses = _functions(elf)
            some = addresses[:: max(1, len(addresses) // _LOOKED_AT)]  # from the whole program
            beginnings = list(_beginnings(elf, some))
    except ELFError:
        return None
    if machine not in (_X86_64, _AARCH64) or not beginnings:
        return None
    return sum(begins_with_frame(code, machine) for code in beginnings) / len(beginnings)


def _functions(elf: ELFFile) -> list[int]:
    """Return addresses of functions long enough to judge: ``.symtab``'s, or else ``.dynsym``'s."""
    section = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
    if section is None or elf.elfclass != 64 or not elf.little_endian:
        return []
    # pyelftools would take seconds for the several hundred thousand symbols of a server.
    symbols = struct.iter_unpack("<IBBHQQ", data_of(section))
    return sorted(
        {
            address
            for _, info, _, place, address, size in symbols
            if info & 15 == _FUNCTION and place != 0 and size >= _SHORTEST_BYTES
        }
    )


def _beginnings(elf: ELFFile, addresses: Sequence[int]) -> Iterator[bytes]:
    loaded = [
        (segment["p_vaddr"], segment["p_filesz"], segment["p_offset"])
        for segment in elf.iter_segments("PT_LOAD")
    ]
    for address in addresses:
        for start, size, offset in loaded:
            if start <= address < start + size:
                elf.stream.seek(offset + address - start)
                yield elf.stream.read(_SEEN_BYTES)
