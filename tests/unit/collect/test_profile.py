"""Test the options of a profile, perf's messages, and the resulting section."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from millrace.collect import profile
from millrace.collect.profile import ENOUGH_S, MOST_RUNS, ProfileCollector, choose, missing
from millrace.collect.profiling import recording
from millrace.collect.profiling.folding import Folded
from millrace.collect.profiling.recording import Granted, Settings
from millrace.errors import Unavailable
from millrace.host import perf
from millrace.host.perf import Perf

X86_64, AARCH64 = "EM_X86_64", "EM_AARCH64"

FUNCTIONS = "\n".join(
    f"int f{n}(int *a, int b) {{"
    f" for (int i = 0; i < b; i++) {{ a[i] += g(a, i) * {n}; b -= g(a, b); }} return g(a, b); }}"
    for n in range(40)
)

# perf's messages on a guest without counters, and on a processor with two kinds of cores.
SOFTWARE = """\
cpu-clock: type: 1, size: 128, { sample_period, sample_freq }: 199, sample_type: IP|TID, inherit: 1
dummy:HG: type: 1, size: 128, config: 0x9, { sample_period, sample_freq }: 199, exclude_kernel: 1
"""
HYBRID = """\
dummy:u: type: 1, size: 128, config: 0x9, { sample_period, sample_freq }: 1, exclude_kernel: 1
cpu_core/cycles/u: type: 0, size: 128, { sample_period, sample_freq }: 97, exclude_kernel: 1
cpu_atom/cycles/u: type: 0, size: 128, { sample_period, sample_freq }: 97, exclude_kernel: 1
"""


def test_what_was_recorded_is_read_from_the_recording() -> None:
    assert recording.granted(SOFTWARE, whole_cpus=True) == Granted("cpu-clock", 199, True, True)
    assert recording.granted(HYBRID, whole_cpus=False) == Granted("cycles:u", 97, False, False)
    with pytest.raises(Unavailable, match="does not tell"):
        recording.granted("no data\n", whole_cpus=True)


def test_calls_are_followed_by_dwarf_where_perf_can() -> None:
    able = Perf("perf", unwinds=True, has_control=True, has_size_limit=True)
    unable = Perf("perf", unwinds=False, has_control=True, has_size_limit=True)
    assert choose(able, 2, lambda: True) == Settings(199, "dwarf", 32768)
    assert choose(able, 64, lambda: False) == Settings(7, "dwarf", 32768)
    assert choose(able, 10_000, lambda: False).frequency_hz == 1
    assert choose(unable, 2, lambda: True) == Settings(997, "fp")
    assert choose(unable, 2, lambda: False) == Settings(997, "none")


def test_samples_that_wait_have_room() -> None:
    assert Settings(997, "fp").buffer_bytes == 512 * 1024
    assert Settings(199, "dwarf", 32768).buffer_bytes == 8 * 1024**2
    assert Settings(7, "dwarf", 32768).buffer_bytes == 512 * 1024


def test_refusal_has_reason_and_hint() -> None:
    denied = perf.refused(
        "Error:\nAccess to performance monitoring and observability operations is limited.\n"
        "Consider adjusting /proc/sys/kernel/perf_event_paranoid setting to open\n"
    )
    assert "observability operations is limited" in denied.message
    assert denied.hint is not None
    assert "CAP_PERFMON" in denied.hint
    assert f"({perf.setting('perf_event_paranoid')} now) to 0" in denied.hint
    gone = perf.refused("Couldn't create thread/CPU maps: No such process\n")
    assert gone.message == "perf cannot record: Couldn't create thread/CPU maps: No such process"
    assert gone.hint is None
    assert perf.refused("").message == "perf cannot record: it ended without a message"
    assert perf.setting("no_such_setting") == "unknown"


class Took:
    """A recording of a set length each time, and a watch of threads."""

    def __init__(self, each_s: float, *, may_resume: bool = True) -> None:
        self.seconds = 0.0
        self.may_resume = may_resume
        self.samples = 0
        self._each_s = each_s

    def sample(self) -> None:
        self.samples += 1

    def begin(self) -> None:
        assert self.samples % 2 == 1

    def end(self) -> None:
        self.seconds += self._each_s


@pytest.mark.parametrize(
    ("took", "runs"),
    [
        (Took(3 * ENOUGH_S), 1),
        (Took(ENOUGH_S / 2.5), 3),
        (Took(ENOUGH_S / 1000), MOST_RUNS),
        (Took(ENOUGH_S / 1000, may_resume=False), 1),
    ],
)
def test_what_is_short_is_seen_again_until_there_is_enough(took: Any, runs: int) -> None:
    profile = ProfileCollector(took, DWARF, took, ())
    counted = 0
    while counted == 0 or profile.wants_more:
        counted += 1
        profile.begin()
        profile.end()
    assert counted == runs


def folded(**different: object) -> Folded:
    values: dict[str, object] = {
        "stacks": {}, "samples": 100, "lost": 0, "rooted": 100, "unnamed": {}, "kernel": 40,
        "unnamed_kernel": 0,
    }  # fmt: skip
    return Folded(**{**values, **different})  # type: ignore[arg-type]


ALL = Granted("cycles", 199, with_kernel=True, whole_cpus=True)
DWARF = Settings(199, "dwarf", 32768)


def lacks(granted: Granted, of: Folded, settings: Settings = DWARF) -> str:
    return "; ".join(each.message for each in missing(granted, of, settings))


def test_missing_parts_of_a_profile_are_reported() -> None:
    assert lacks(ALL, folded()) == ""
    assert lacks(ALL, folded(unnamed={"mysqld": 1})) == ""
    assert lacks(ALL, folded(unnamed={"mysqld": 31, "libc.so": 2})) == (
        "names of functions of mysqld, in 31 % of samples"
    )
    assert "20 % of samples, which were lost" in lacks(ALL, folded(lost=25))
    assert "callers of 40 % of samples" in lacks(ALL, folded(rooted=60), Settings(997, "fp"))
    assert "names of the kernel's functions" in lacks(ALL, folded(unnamed_kernel=40))
    assert "what the kernel does" in lacks(Granted("cycles", 199, False, True), folded(kernel=0))
    assert "whole CPUs" in lacks(Granted("cycles", 199, True, False), folded())
    assert lacks(ALL, folded(samples=0, rooted=0, kernel=0)) == ""


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
    assert profile.begins_with_frame(bytes.fromhex(code), machine) == expected


def compile_functions(library: Path, option: str) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    source = library.with_suffix(".c")
    source.write_text(f"int g(int *, int);\n{FUNCTIONS}\n", encoding="ascii")
    command = ["cc", "-O2", f"-f{option}-frame-pointer", "-shared", "-fPIC", "-o"]
    subprocess.run([*command, str(library), str(source)], check=True)


@pytest.mark.parametrize(("option", "kept"), [("no-omit", True), ("omit", False)])
def test_what_a_compiler_makes(tmp_path: Path, option: str, kept: bool) -> None:
    library = tmp_path / "f.so"
    compile_functions(library, option)
    assert profile.frame_pointers_are_kept(library) is kept
    subprocess.run(["strip", str(library)], check=True)
    assert profile.frame_pointers_are_kept(library) is kept


def test_a_program_that_is_replaced_is_looked_at_again(tmp_path: Path) -> None:
    file = tmp_path / "program"
    file.write_bytes(b"#!/bin/sh\n")
    assert profile.frame_pointers_are_kept(file) is None
    compile_functions(file, "no-omit")
    assert profile.frame_pointers_are_kept(file) is True


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        profile.frame_pointers_are_kept(tmp_path / "gone")
