"""Find the outermost function of a thread, from the end of its stack, by the program's symbols.

The address of the function with which a thread began lies above the stack; where another function
called it, the outermost frames hold a return address inside it.
"""

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
_MOST_BYTES = 1 << 18  # of a stack; a thread that waits for work uses a few kilobytes
_PAGE_BYTES = 4096
_EXECUTABLE = b"x"
_PAUSES_S = (0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)  # before each look at the threads that ran
_MAY_EXECUTE = 1  # PF_X


@dataclass(frozen=True)
class Function:
    """The addresses of a function, as in its program."""

    start: int
    end: int
    name: str


@dataclass(frozen=True)
class Mapped:
    """A mapping of a process's memory: addresses, rights, offset in the file, and the file."""

    start: int
    end: int
    rights: bytes
    offset: int
    file: bytes


def functions_of(pid: int, program: Path, names: Collection[str]) -> dict[int, str]:
    """Return the function of each thread of a process, where it is one of ``names``.

    A stack is only readable while its thread waits, so threads that ran at each of several looks
    have none. Raise OSError where the process is gone or not accessible.
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
                    continue  # the thread has just ended, or its stack is in a kernel page
                name = outermost(words, functions, base)
                if name is not None:
                    found[tid] = name
            running = {tid for tid, pointer in pointers.items() if pointer is None}
            if not running:
                break
    return found


def outermost(stack: bytes, functions: tuple[Function, ...], base: int) -> str | None:
    """Return the known function whose start address lies highest on a stack.

    Where there is none, return the function into which the highest address leads. ``stack`` begins
    at the stack pointer; ``base`` is the program's address 0 in memory.
    """
    whole = len(stack) // _WORD_BYTES
    starts = [function.start for function in functions]
    inside = None
    for word in reversed(struct.unpack(f"={whole}Q", stack[: whole * _WORD_BYTES])):
        at = bisect_right(starts, word - base) - 1
        if at < 0 or word - base >= functions[at].end:
            continue
        if word - base == functions[at].start:
            return functions[at].name
        # Sizes are whole pages; they look like addresses of programs at the bottom of memory.
        if inside is None and word % _PAGE_BYTES:
            inside = functions[at].name
    return inside


@functools.cache
def functions_in(program: Path, names: frozenset[str]) -> tuple[Function, ...]:
    """Return the functions ``names`` of a 64-bit program, by address; none without symbols."""
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
    """Parse /proc/PID/maps, or its beginning where long file names exceed the read limit."""
    *lines, _cut = raw.split(b"\n")  # a newline is the only byte that file names here cannot hold
    for line in lines:
        addresses, rights, offset, _device, _inode, *file = line.split(None, 5)
        start, _, end = addresses.partition(b"-")
        name = file[0] if file else b""
        yield Mapped(int(start, 16), int(end, 16), rights, int(offset, 16), name)


def _base(mapped: list[Mapped], program: Path) -> int | None:
    """Return the program's address 0 in a process; None where the process does not run it."""
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
        pass  # the kernel runs even a program that the library cannot read
    return None


def in_table(table: bytes, texts: bytes, names: frozenset[str]) -> Iterator[Function]:
    """Yield the functions of a symbol table that have one of the names."""
    at = dict(itertools.chain.from_iterable(_places(texts, name) for name in names))
    for name, info, _other, _section, value, size in _SYMBOL.iter_unpack(table):
        if name in at and info & 0xF == _FUNCTION and value and size:
            yield Function(value, value + size, at[name])


def _places(texts: bytes, name: str) -> Iterator[tuple[int, str]]:
    """Yield the places in a string table of a function's plain and mangled names and copies."""
    plain = name.encode()
    length = b"%d" % len(plain)
    behind = len(plain)
    at = texts.find(plain)
    most_before = len(b"_ZL" + length) + 1
    while at >= 0:
        # The search has a limit because a malicious string table may hold no zero byte.
        earliest = max(at - most_before, 0)
        begin = texts.rfind(b"\0", earliest, at) + 1
        before = texts[max(begin, earliest) : at]
        is_plain = not before and texts[at + behind : at + behind + 1] in (b"\0", b".")
        if is_plain or before in (b"_Z" + length, b"_ZL" + length):
            yield begin, name
        at = texts.find(plain, at + behind)
