"""Test whether a build keeps frame pointers, by its code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from millrace.collect.profiling import frame_pointers

X86_64, AARCH64 = "EM_X86_64", "EM_AARCH64"

FUNCTIONS = "\n".join(
    f"int f{n}(int *a, int b) {{"
    f" for (int i = 0; i < b; i++) {{ a[i] += g(a, i) * {n}; b -= g(a, b); }} return g(a, b); }}"
    for n in range(40)
)


@pytest.mark.parametrize(
    ("code", "machine", "expected"),
    [
        ("55 48 89 e5 41 57", X86_64, True),  # push %rbp; mov %rsp,%rbp
        ("55 48 8b ec 41 57", X86_64, True),  # the same in another encoding
        ("f3 0f 1e fa 55 48 89 e5", X86_64, True),  # endbr64 first
        ("55 53 48 83 ec 08", X86_64, False),  # push %rbp; push %rbx: a register like any other
        ("41 57 41 56 55 48 89 fd", X86_64, False),
        ("", X86_64, False),
        ("fd 7b be a9 fd 03 00 91", AARCH64, True),  # stp x29, x30, [sp, #-32]!; mov x29, sp
        ("3f 23 03 d5 fd 7b be a9", AARCH64, True),  # paciasp first
        ("ff 43 01 d1 fd 7b 04 a9", AARCH64, True),  # sub sp, sp, #80; stp x29, x30, [sp, #64]
        ("f3 53 be a9 f5 5b 01 a9", AARCH64, False),  # stp x19, x20, ...
        ("fd 7b", AARCH64, False),
        ("55 48 89 e5", "EM_RISCV", False),
    ],
)
def test_the_beginning_of_a_function(code: str, machine: str, expected: bool) -> None:
    assert frame_pointers.begins_with_frame(bytes.fromhex(code), machine) == expected


@pytest.mark.parametrize(("option", "kept"), [("no-omit", True), ("omit", False)])
def test_what_a_compiler_makes(tmp_path: Path, option: str, kept: bool) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    source, library = tmp_path / "f.c", tmp_path / "f.so"
    source.write_text(f"int g(int *, int);\n{FUNCTIONS}\n", encoding="ascii")
    command = ["cc", "-O2", f"-f{option}-frame-pointer", "-shared", "-fPIC", "-o"]
    subprocess.run([*command, str(library), str(source)], check=True)
    assert frame_pointers.are_kept(library) is kept
    subprocess.run(["strip", str(library)], check=True)
    assert frame_pointers.are_kept(library) is kept


def test_a_program_that_is_replaced_is_looked_at_again(tmp_path: Path) -> None:
    file = tmp_path / "program"
    file.write_bytes(b"#!/bin/sh\n")
    assert frame_pointers.are_kept(file) is None
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    source = tmp_path / "f.c"
    source.write_text(f"int g(int *, int);\n{FUNCTIONS}\n", encoding="ascii")
    command = ["cc", "-O2", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-o"]
    subprocess.run([*command, str(file), str(source)], check=True)
    assert frame_pointers.are_kept(file) is True


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        frame_pointers.are_kept(tmp_path / "gone")
