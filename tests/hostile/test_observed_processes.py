"""Test collectors on the process and the program of a hostile server."""

import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from millrace.collect import profile
from millrace.collect.threads import thread_functions
from millrace.model.servers import AttachedServer
from millrace.servers.attached import AttachedInstance
from tests.support import small_servers

MAIN = frozenset({"main"})
_SIZE, _ENTRY_SIZE = 32, 56  # offsets of sh_size and sh_entsize in a section header

# Uses a page of the kernel's, which every process has far above its own, as its stack.
STACK_OF_THE_KERNEL = """
#include <unistd.h>
int main(void) {
    close(1);
    __asm__ volatile("mov $0xffffffffff600800, %rsp; mov $34, %eax; syscall; hlt");
    return 0;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return small_servers.program(tmp_path / "mysqld", "5.7.99")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Run a process whose stack pointer leads outside its stack; yield it and its program."""
    if platform.machine() != "x86_64" or "[vsyscall]" not in Path("/proc/self/maps").read_text():
        pytest.skip("processes have no page of the kernel's here")
    path = small_servers.compiled(tmp_path / "elsewhere", STACK_OF_THE_KERNEL)
    with subprocess.Popen([path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()
        yield process.pid, path
        process.kill()


def test_a_stack_beyond_all_memory_has_no_function(elsewhere: tuple[int, Path]) -> None:
    pid, path = elsewhere
    assert thread_functions.functions_in(path, MAIN)
    assert thread_functions.functions_of(pid, path, MAIN) == {}


def test_mappings_are_read_as_far_as_they_are_whole() -> None:
    line = b"1000-2000 r-xp 00000000 fe:00 7 /a\rb\x0bc d\n"
    whole = list(thread_functions.maps(line * 2))
    assert [each.file for each in whole] == [b"/a\rb\x0bc d"] * 2
    for cut in range(1, len(line)):
        assert list(thread_functions.maps(line + line[:cut])) == whole[:1]


def test_damaged_symbol_table_yields_no_symbols(program: Path) -> None:
    with program.open("rb") as file:
        elf = ELFFile(file)
        sections = [each.name for each in elf.iter_sections()]
        at = elf["e_shoff"] + sections.index(".symtab") * elf["e_shentsize"]
    assert thread_functions.functions_in(program, MAIN)
    whole = program.read_bytes()
    for number, (size, of_entry) in enumerate(((25, 1), (25, 24), (1 << 62, 1), (1 << 31, 1))):
        damaged = program.with_name(f"damaged-{number}")
        content = bytearray(whole)
        content[at + _SIZE : at + _SIZE + 8] = size.to_bytes(8, "little")
        content[at + _ENTRY_SIZE : at + _ENTRY_SIZE + 8] = of_entry.to_bytes(8, "little")
        damaged.write_bytes(content)
        assert thread_functions.functions_in(damaged, MAIN) == ()
        assert profile.frame_pointers_are_kept(damaged) is None


def test_a_damaged_program_is_at_no_address(program: Path) -> None:
    mapped = thread_functions.Mapped(0, 1 << 40, b"r-xp", 0, str(program).encode())
    assert thread_functions._base([mapped], program) is not None
    program.write_bytes(program.read_bytes()[:100])
    assert thread_functions._base([mapped], program) is None


def test_the_program_that_is_looked_into_is_the_one_that_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(profile, "frame_pointers_are_kept", asked.append)
    server = small_servers.installed(small_servers.tree(tmp_path / "small/tree"))
    target: Any = SimpleNamespace(client=SimpleNamespace(server=server))
    assert not profile._keeps_frame_pointers(target)
    assert asked == [server.program]
    attached = AttachedInstance(AttachedServer("theirs", "mysql", "mysql://u@127.0.0.1/"))
    target.client = attached
    assert not profile._keeps_frame_pointers(target)
    assert asked == [server.program]
