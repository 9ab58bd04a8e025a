"""Which function a thread spends its life in, by what lies at the end of its stack.

A server that gives its threads no names still has symbols for the functions that these run. Where a
thread was begun with such a function, its address is kept above the stack; where the function was
called by another one, the return address of what it calls itself lies in the outermost frames.
"""

from __future__ import annotations

import functools
import itertools
import os
import struct
import time
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError

from millrace.host import procfs
from millrace.host.elf import data_of, opened

_TABLES = ((".symtab", ".strtab"), (".dynsym", ".dynstr"))
_SYMBOL = struct.Struct("<IBBHQQ")  # of 64-bit programs: name, info, other, section, value, size
_FUNCTION = 2  # STT_FUNC, in the lower half of info
_WORD_BYTES = 8
_MOST_BYTES = 1 << 18  # of a stack; a thread that waits for work uses some kilobytes
_PAGE_BYTES = 4096
_EXECUTABLE = b"x"
_PAUSES_S = (0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)  # before each look at those that ran
_MAY_EXECUTE = 1  # PF_X


@dataclass(frozen=True)
class Function:
    """The addresses of a function, as its program says."""

    start: int
    end: int
    name: str


@dataclass(frozen=True)
class Mapped:
    """A part of a process's memory: addresses, rights, offset in the file, and the file."""

    start: int
    end: int
    rights: bytes
    offset: int
    file: bytes


def functions_of(pid: int, program: Path, names: Collection[str]) -> dict[int, str]:
    """The function of each of a process's threads, if it is one of ``names``. Threads that may not
    be looked at have none, and neither have those that ran, or waited for a CPU, at each of several
    looks: a stack can be read where its thread waits.

    Raises OSError where the process is gone or closed to us.
    """
    functions = functions_in(program, frozenset(names))
    base = _base(list(maps(procfs.read(f"/proc/{pid}/maps"))), program)
    if not functions or base is None:
        return {}
    found = {}
    running = {int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()}
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for pause_s in _PAUSES_S:
            time.sleep(pause_s)
            mapped = list(maps(procfs.read(f"/proc/{pid}/maps")))
            pointers = {
                tid: procfs.stack_pointer(raw)
                for tid in running
                if (raw := procfs.read_or_none(f"/proc/{pid}/task/{tid}/syscall")) is not None
            }
            for tid, pointer in pointers.items():
                stack = next((m for m in mapped if pointer and m.start <= pointer < m.end), None)
                if pointer is None or stack is None:
                    continue
                size = min(stack.end - pointer, _MOST_BYTES)
                try:
                    words = os.pread(memory.fileno(), size, pointer)
                except (OSError, OverflowError):
                    continue  # it has just ended, or takes a page of the kernel's for its stack
                name = outermost(words, functions, base)
                if name is not None:
                    found[tid] = name
            running = {tid for tid, pointer in pointers.items() if pointer is None}
            if not running:
                break
    return found


def outermost(stack: bytes, functions: tuple[Function, ...], base: int) -> str | None:
    """The known function whose address lies highest on a stack, which is read from its pointer on,
    else the one into which the highest address leads; ``base`` is where the program's address 0
    is."""
    whole = len(stack) // _WORD_BYTES
    starts = [function.start for function in functions]
    inside = None
    for word in reversed(struct.unpack(f"={whole}Q", stack[: whole * _WORD_BYTES])):
        at = bisect_right(starts, word - base) - 1
        if at < 0 or word - base >= functions[at].end:
            continue
        if word - base == functions[at].start:
            return functions[at].name
        # Sizes, which are whole pages, look like addresses of programs that lie at the bottom.
        if inside is None and word % _PAGE_BYTES:
            inside = functions[at].name
    return inside


@functools.cache
def functions_in(program: Path, names: frozenset[str]) -> tuple[Function, ...]:
    """The functions of a 64-bit program that are called ``names``, in the order of addresses; none
    where it has no symbols."""
    found = set()
    try:
        with opened(program) as elf:
            if elf.elfclass != 64 or not elf.little_endian:
                return ()
            for symbols, texts in _TABLES:
                table, text = elf.get_section_by_name(symbols), elf.get_section_by_name(texts)
                if table is not None and text is not None:
                    found |= set(in_table(data_of(table), data_of(text), names))
    except (ELFError, OSError):
        return ()
    return tuple(sorted(found, key=lambda function: function.start))


def maps(raw: bytes) -> Iterator[Mapped]:
    """/proc/PID/maps, or the beginning of it: long names of files make it longer than is read."""
    *lines, _cut = raw.split(b"\n")  # the only one that names of files have not
    for line in lines:
        addresses, rights, offset, _device, _inode, *file = line.split(None, 5)
        start, _, end = addresses.partition(b"-")
        name = file[0] if file else b""
        yield Mapped(int(start, 16), int(end, 16), rights, int(offset, 16), name)


def _base(mapped: list[Mapped], program: Path) -> int | None:
    """Where the program's address 0 is in a process; None where it does not run it."""
    name = os.fsencode(program.resolve())
    text = next((m for m in mapped if m.file == name and _EXECUTABLE in m.rights), None)
    if text is None:
        return None
    try:
        with opened(program) as elf:
            for segment in elf.iter_segments("PT_LOAD"):
                first, size = segment["p_offset"], segment["p_filesz"]
                ends = first + size
                is_mapped = first <= text.offset + text.end - text.start and text.offset < ends
                if is_mapped and segment["p_flags"] & _MAY_EXECUTE:
                    return int(text.start - text.offset + first - segment["p_vaddr"])
    except ELFError:
        pass  # its own kernel runs it all the same
    return None


def in_table(table: bytes, texts: bytes, names: frozenset[str]) -> Iterator[Function]:
    """The functions of a symbol table that have one of the names."""
    at = dict(itertools.chain.from_iterable(_places(texts, name) for name in names))
    for name, info, _other, _section, value, size in _SYMBOL.iter_unpack(table):
        if name in at and info & 0xF == _FUNCTION and value and size:
            yield Function(value, value + size, at[name])


def _places(texts: bytes, name: str) -> Iterator[tuple[int, str]]:
    """Where in a table of texts there are symbols of a function, plain, mangled (its name behind
    its length, its parameters behind it) or of a copy (``.isra.0``)."""
    plain = name.encode()
    length = b"%d" % len(plain)
    behind = len(plain)
    at = texts.find(plain)
    most_before = len(b"_ZL" + length) + 1
    while at >= 0:
        # No further: a table of texts that was made to harm may have no zero at all.
        earliest = max(at - most_before, 0)
        begin = texts.rfind(b"\0", earliest, at) + 1
        before = texts[max(begin, earliest) : at]
        is_plain = not before and texts[at + behind : at + behind + 1] in (b"\0", b".")
        if is_plain or before in (b"_Z" + length, b"_ZL" + length):
            yield begin, name
        at = texts.find(plain, at + behind)
