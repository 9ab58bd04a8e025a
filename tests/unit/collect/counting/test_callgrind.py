"""Test the reader of callgrind's files: what it writes, and what a hostile server might."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.collect.counting import callgrind
from millrace.collect.counting.callgrind import ThreadDump, parse, read_dumps
from millrace.errors import TrialFailed
from millrace.model.instruction_counts import CallPath

DUMP = """\
positions: line
events: Ir
fn=(1) dispatch_command'main
0 40
totals: 40
"""

# What callgrind 3.19 writes of a thread of mysql-5.6.24, most of it left out.
WRITTEN = """\
# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 4404
cmd:  /srv/mysqld --no-defaults
part: 6
thread: 27


desc: I1 cache: 
desc: Timerange: Basic block 8814010 - 11872511
desc: Trigger: dump

positions: line
events: Ir
summary: 1180


ob=(3) /usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30
fl=(109) ???
fn=(8) operator delete(void*)'MDL_ticket::~MDL_ticket()'dispatch_command(int, THD*)'clone
0 700
cob=(2) /usr/lib/x86_64-linux-gnu/libc.so.6
cfi=(110) ./malloc/./malloc/malloc.c
cfn=(10) free'operator delete(void*)'MDL_ticket::~MDL_ticket()'dispatch_command(int, THD*)'clone
calls=350 3350 
0 400
+3 30

ob=(2)
fl=(110)
fn=(10)
0 400
fn=(12) 0x0000000000c7f450'clone
* 50

totals: 1180
"""  # noqa: W291

DELETE = ("clone", "dispatch_command", "MDL_ticket::~MDL_ticket", "operator delete")


def read(text: str) -> ThreadDump:
    return parse(line + b"\n" for line in text.encode().splitlines())


def test_what_callgrind_writes_is_read() -> None:
    dump = read(WRITTEN)
    assert dump.own == {DELETE: 730, (*DELETE, "free"): 400, ("clone", "[unknown]"): 50}
    assert dump.calls == {(*DELETE, "free"): 350}
    assert dump.files == {
        "operator delete": "libstdc++.so", "free": "libc.so", "[unknown]": "libc.so",
    }  # fmt: skip
    assert dump.total == 1180


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("totals: 1180\n", "", "after line 36: the end of the file is missing"),
        ("totals: 1180", "totals: 1181", "after line 37: the lines add up to 1,180 instructions"),
        ("totals: 1180", "totals: many", "line 37: 'many' is not a number of instructions"),
        ("events: Ir", "events: Ir Dr", "it counts 'Ir Dr'"),
        ("events: Ir\n", "", "it does not say that it counts instructions"),
        ("positions: line", "positions: instr line", "it has the positions"),
        ("* 50", "* -50", "'-50' is not a number of instructions"),
        ("* 50", "* 99999999999999999999", "not a number of instructions"),
        ("* 50", "* 9999999999999999999", "more than a thread executes"),
        ("* 50", "* ٥٠", "not a number of instructions"),
        ("fn=(10)\n0 400", "fn=(11)\n0 400", "name (11) is used before it is defined"),
        ("fn=(12) 0x", "fn=12 0x", "is not the number of a name"),
        ("calls=350 3350", "calls=x 3350", "'x' is not a number of instructions"),
        ("cfn=(10) free", "fl=(10) free", "a call without a function"),
        ("+3 30", "+3x 30", "is not a position"),
        ("+3 30", "what is this", "is not a line of callgrind's format"),
        ("fn=(8) operator", "fl=(8) operator", "instructions without a function"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_line(before: str, after: str, said: str) -> None:
    assert WRITTEN.count(before) >= 1
    with pytest.raises(ValueError, match=r"line \d+: ") as refused:
        read(WRITTEN.replace(before, after, 1))
    assert said in str(refused.value)


def test_an_endless_line_is_refused() -> None:
    with pytest.raises(ValueError, match="line 1: it has more than"):
        parse([b"fn=(1) " + b"a" * (1 << 20)])


def test_the_number_of_names_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callgrind, "_MOST_NAMES", 2)
    with pytest.raises(ValueError, match="it has more than 2 call paths"):
        read(WRITTEN)


def test_names_cannot_hold_what_separates_them_elsewhere() -> None:
    dump = read(WRITTEN.replace("0x0000000000c7f450'clone", "a;b\tc\x1b[31m'clone"))
    assert ("clone", "a b c [31m") in dump.own


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with suppress(ValueError):
        parse(raw.splitlines(keepends=True))


NAMES = st.sampled_from(["main", "run", "step", "alpha", "beta_2", "operator new", "ns::f"])
PATHS = st.lists(NAMES, min_size=1, max_size=6).map(tuple)
COSTS = st.dictionaries(PATHS, st.integers(0, 10**12), max_size=12)
CALLS = st.dictionaries(PATHS, st.integers(0, 10**9), max_size=12)


def lines(own: Mapping[CallPath, int], calls: Mapping[CallPath, int]) -> Iterator[str]:
    """Write a file as callgrind does: each name once in full, then by its number."""
    numbers: dict[CallPath, int] = {}

    def named(path: CallPath) -> str:
        if path in numbers:
            return f"({numbers[path]})"
        numbers[path] = 2 * len(numbers)
        return f"({numbers[path]}) {chr(39).join(reversed(path))}"

    yield from ("# callgrind format", "version: 1", "positions: line", "events: Ir", "")
    yield "ob=(1) /srv/mysqld"
    for path, instructions in own.items():
        yield f"fn={named(path)}"
        yield f"{len(numbers)} {instructions // 2}"
        for called, count in calls.items():
            if called[:-1] == path:
                yield from (f"cfn={named(called)}", f"calls={count} 17", f"* {instructions}")
        yield f"+1 {instructions - instructions // 2}"
        yield ""
    yield f"totals: {sum(own.values())}"


@given(COSTS, CALLS)
def test_what_was_written_is_what_is_read(
    own: Mapping[CallPath, int], calls: Mapping[CallPath, int]
) -> None:
    dump = parse(line.encode() + b"\n" for line in lines(own, calls))
    assert {path: number for path, number in dump.own.items() if number} == {
        path: number for path, number in own.items() if number
    }
    assert dump.calls == {path: n for path, n in calls.items() if path[:-1] in own}
    assert dump.total == sum(own.values())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / "tmp"
    directory.mkdir()
    return directory


def test_dumps_are_read_by_their_numbers(place: Path) -> None:
    for name in ("callgrind.out.1-01", "callgrind.out.2-01", "callgrind.out.2-14"):
        (place / name).write_text(DUMP)
    (place / "callgrind.out").touch()
    (place / "vgdb-pipe").write_text("something else")
    found = read_dumps(place)
    assert {dump: set(threads) for dump, threads in found.items()} == {1: {1}, 2: {1, 14}}
    assert found[2][14].total == 40


def test_a_dump_that_is_cut_names_its_file_and_line(place: Path) -> None:
    (place / "callgrind.out.1-01").write_text(DUMP[:-20])
    with pytest.raises(TrialFailed, match=r"callgrind\.out\.1-01, .* after line 3: "):
        read_dumps(place)


def test_links_and_pipes_are_not_followed(place: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(DUMP)
    file = place / "callgrind.out.1-01"
    file.symlink_to(secret)
    with pytest.raises(TrialFailed, match="cannot be read"):
        read_dumps(place)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(TrialFailed, match="it is not a file"):
        read_dumps(place)


def test_files_too_large_or_too_many_are_not_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = place / "callgrind.out.1-01"
    file.touch()
    os.truncate(file, callgrind._FILE_LIMIT_BYTES + 1)
    with pytest.raises(TrialFailed, match="it has 268,435,457 bytes"):
        read_dumps(place)
    file.write_text(DUMP)
    monkeypatch.setattr(callgrind, "_MOST_FILES", 0)
    with pytest.raises(TrialFailed, match="callgrind wrote 1 files"):
        read_dumps(place)
