"""Count a small program in callgrind, with and without a function, and find that function."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from millrace.analysis.counts.compare_counts import function_differences
from millrace.collect.counting import callgrind
from millrace.collect.counting.statements import ClientSession, StatementCount, count_statement
from millrace.errors import MillraceError
from millrace.host import valgrind
from millrace.host.valgrind import Valgrind

PROGRAM = """\
#include <stdlib.h>
#include <string.h>

#define CALLED __attribute__((noinline))

static volatile unsigned sum;
static char from[4096], to[4096];

CALLED static void spin(unsigned steps) { while (steps--) sum += steps; }
CALLED static void copy(unsigned bytes) { memcpy(to, from, bytes); sum += to[bytes / 2]; }
CALLED static void log_in(void) { spin(random() % 50000); }
CALLED static void parse(void) { spin(300); copy(64); }
#ifdef EXTRA
CALLED static void check_rights(void) { spin(20); copy(512); spin(20); }
#endif
CALLED static void read_row(void) {
    spin(700);
    copy(128);
#ifdef EXTRA
    check_rights();
#endif
}
CALLED static void execute(void) { parse(); read_row(); }
CALLED void dispatch_command(int prepares) { if (prepares) spin(9000); else execute(); }

int main(int argc, char **argv) {
    srandom(argc > 2 ? atoi(argv[2]) : 1);
    log_in();
    dispatch_command(1);
    for (int n = atoi(argv[1]); n > 0; n--) dispatch_command(0);
    return 0;
}
"""
FEW, MANY = 20, 120
EXTRA = 150  # instructions at least that check_rights takes


@pytest.fixture(scope="module")
def counting() -> Valgrind:
    try:
        return valgrind.find()
    except MillraceError as error:
        pytest.skip(error.message)


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which("cc")
    if found is None:
        pytest.skip("no C compiler")
    return found


def compiled(compiler: str, directory: Path, *options: str) -> Path:
    program = directory / "program"
    directory.mkdir()
    command = [compiler, "-O1", "-g", "-x", "c", "-", "-o", str(program), *options]
    subprocess.run(command, input=PROGRAM, text=True, check=True)
    return program


def counted(counting: Valgrind, program: Path, number: int) -> ClientSession:
    """Run the program in callgrind, from its start on, as millrace runs servers."""
    with tempfile.TemporaryDirectory(dir=program.parent) as directory:
        arguments = counting.callgrind(Path(directory))
        from_the_start = [each for each in arguments if each != "--instr-atstart=no"]
        subprocess.run(
            [*from_the_start, str(program), str(number), str(number)],
            check=True,
            capture_output=True,
        )
        (file,) = Path(directory).glob("callgrind.out-*")
        with file.open("rb") as written:
            return ClientSession(number, {1: callgrind.parse(written)})


def counts(counting: Valgrind, program: Path) -> StatementCount:
    few, many = (counted(counting, program, number) for number in (FEW, MANY))
    return count_statement(few, many, frozenset(("dispatch_command",)), valgrind.MOST_CALLERS)


def test_a_planted_function_is_named_first_and_the_rest_is_equal(
    counting: Valgrind, compiler: str, tmp_path: Path
) -> None:
    program = compiled(compiler, tmp_path / "a")
    without, again = (counts(counting, program) for _ in range(2))
    extra = counts(counting, compiled(compiler, tmp_path / "extra", "-DEXTRA"))
    assert function_differences(without.paths, again.paths, {}) == ()
    assert again.counted.instructions == pytest.approx(without.counted.instructions, rel=1e-6)
    differences = function_differences(without.paths, extra.paths, extra.files)
    found = differences[0]
    assert (found.name, found.only, found.file) == ("check_rights", "B", "program")
    assert found.callers == ("dispatch_command", "execute", "read_row")
    # Its caller's call is one instruction.
    more = extra.counted.instructions - without.counted.instructions
    assert EXTRA < found.difference <= more <= found.difference + 4
