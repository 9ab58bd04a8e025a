"""Detect by its code whether a build keeps frame pointers, which make calls cheap to follow.

Functions that keep it first save their caller's and set their own. Other instructions may come
between, and functions that return early omit them; in a build without frame pointers, almost none
begin so, only those with frames of varying size.
"""

import functools
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from millrace.host.elf import data_of, opened

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


def are_kept(program: Path) -> bool | None:
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
