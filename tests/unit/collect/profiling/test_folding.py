"""Test the conversion of perf script's text to folded stacks."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases
from millrace.collect.profiling.folding import Folded, Lost, Sample, fold, parse

SESSION_FUNCTIONS = databases.get("mysql").monitoring.threads.session_functions

# Output of perf 6.1 for mysql-5.6.24 with the host's C library, frames left out.
BY_DWARF = """\
mysqld 20348 
\tffffffff82203249 _raw_spin_unlock_irqrestore ([kernel.kallsyms])
\tffffffff813a4413 finish_task_switch.isra.0 ([kernel.kallsyms])
\tffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
\t          10aba4 __send (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t          77f64c vio_write (/srv/mysql 5.6 (24)/mysqld)
\t          2fc9d0 do_command (/srv/mysql 5.6 (24)/mysqld)
\t          6f7826 pfs_spawn_thread (/srv/mysql 5.6 (24)/mysqld)
\t           891f4 start_thread (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t          1098eb clone3 (/usr/lib/x86_64-linux-gnu/libc.so.6)

ThreadPoolForeg 14650 PERF_RECORD_LOST lost 7
ib_io_rd-1 2 20321 
\t           94db7 ut_delay(unsigned long) (/srv/mysqld (deleted))
\tffffffffffffffff [unknown] ([unknown])

mysqld 20349 
"""  # noqa: W291

# The same without call graph.
FLAT = """\
         mysqld 15690  ffffffff81621695 __alloc_frozen_pages_noprof ([kernel.kallsyms])
           cafe 15699      7f0807803adf std::vector<int>::find(int) const (/usr/lib/libx.so.6.0.30)
"""

VIO = (
    "libc.so`start_thread;mysqld`pfs_spawn_thread;mysqld`do_command;mysqld`vio_write;libc.so`__send;"
    "[kernel]`entry_SYSCALL_64_after_hwframe;[kernel]`finish_task_switch;"
    "[kernel]`_raw_spin_unlock_irqrestore"
)


def fold_all(
    samples: Iterable[Sample | Lost], kinds: Mapping[int, str], serving: str = "connection"
) -> Folded:
    return fold(samples, kinds, SESSION_FUNCTIONS, serving)


def test_samples_are_read_as_perf_prints_them() -> None:
    seen = list(parse(BY_DWARF.splitlines(keepends=True)))
    assert [(each.comm, each.tid) for each in seen if isinstance(each, Sample)] == [
        ("mysqld", 20348), ("ib_io_rd-1 2", 20321), ("mysqld", 20349),
    ]  # fmt: skip
    assert seen[1] == Lost(7)
    assert seen[2] == Sample("ib_io_rd-1 2", 20321, ("[unknown]`[unknown]", "mysqld`ut_delay"))
    assert seen[3] == Sample("mysqld", 20349, ())


def test_stacks_are_counted_by_the_kind_of_their_thread() -> None:
    folded = fold_all(parse((BY_DWARF * 2).splitlines()), {20348: "connection"})
    assert folded.stacks == {f"connection;{VIO}": 2, "ib_io_rd-1 2;mysqld`ut_delay": 2, "mysqld": 2}
    assert (folded.samples, folded.lost, folded.rooted) == (6, 14, 2)
    assert (folded.kernel, folded.unnamed_kernel, folded.unnamed) == (2, 0, {})


def test_samples_without_calls_are_in_one_line() -> None:
    folded = fold_all(parse(FLAT.splitlines()), {})
    assert folded.stacks == {
        "mysqld;[kernel]`__alloc_frozen_pages_noprof": 1,
        "cafe;libx.so`std::vector::find": 1,
    }
    assert folded.rooted == 0


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ("7ffd41bdd5a1 __vdso_gettimeofday ([vdso])", "[vdso]`__vdso_gettimeofday"),
        ("ffffffffc0a01234 ext4_sync_file ([ext4])", "[kernel]`ext4_sync_file"),
        ("ffffffffc0a01234 [unknown] (/lib/modules/6.1/ext4.ko)", "[kernel]`[unknown]"),
        ("7f00 [unknown] (//anon)", "[anon]`[unknown]"),
        ("1 [unknown] ([unknown])", "[unknown]`[unknown]"),
        ("2b0 __libc_fork (/lib/x86_64-linux-gnu/libc-2.31.so)", "libc.so`__libc_fork"),
        ("2b0 io_submit (/lib/libaio.so.1t64)", "libaio.so`io_submit"),
        ("2b0 a (/opt/lib/libstdc++.so.6.0.30 (deleted))", "libstdc++.so`a"),
        ("2b0 operator delete(void*) (/b/mysqld-debug)", "mysqld-debug`operator delete"),
        ("2b0 f(int (*)(char)) (/b;c/d;e)", "d:e`f"),
    ],
)
def test_frames_are_named_by_module_and_function(frame: str, name: str) -> None:
    (sample,) = parse(["mysqld 1 \n", f"\t{frame}\n", "\n"])
    assert sample == Sample("mysqld", 1, (name,))


THREAD, PROGRAM = "libc.so`start_thread", "libc.so`__libc_start_main"


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        # With the C library's full symbols, with none, with an old one, with a guess too many.
        ("libc.so`clone3 libc.so`start_thread m`handle m`f", f"{THREAD} m`handle m`f"),
        ("libc.so`[unknown] libc.so`[unknown] m`handle", f"{THREAD} m`handle"),
        ("libc.so`clone libpthread.so`start_thread m`[unknown]", f"{THREAD} m`[unknown]"),
        (
            "[unknown]`[unknown] [unknown]`[unknown] libc.so`start_thread m`handle",
            f"{THREAD} m`handle",
        ),
        ("libc.so`clone libc.so`[unknown] libstdc++.so`[unknown] m`f",
         f"{THREAD} libstdc++.so`[unknown] m`f"),
        # The first thread's.
        ("m`_start libc.so`__libc_start_main libc.so`[unknown] m`main", f"{PROGRAM} m`main"),
        ("m`[unknown] libc.so`__libc_start_main m`main", f"{PROGRAM} m`main"),
        # Stacks that do not reach back far enough.
        ("libc.so`__send [kernel]`sys", "libc.so`__send [kernel]`sys"),
        ("libc.so`[unknown] [kernel]`sys", "libc.so`[unknown] [kernel]`sys"),
        ("libc.so`[unknown]", "libc.so`[unknown]"),
        ("m`[unknown] libc.so`[unknown] m`compare", "m`[unknown] libc.so`[unknown] m`compare"),
        ("m`f libc.so`pthread_create libc.so`clone3", "m`f libc.so`pthread_create libc.so`clone3"),
        ("[unknown]`[unknown] m`f", "m`f"),
        ("[unknown]`[unknown]", "[unknown]`[unknown]"),
    ],
)  # fmt: skip
def test_one_frame_stands_for_the_start_of_a_thread(calls: str, expected: str) -> None:
    folded = fold_all([Sample("t", 1, tuple(calls.split()))], {})
    assert folded.stacks == {";".join(("t", *expected.split())): 1}
    assert folded.rooted == expected.startswith((THREAD, PROGRAM))


def test_samples_in_code_without_a_name_are_counted_where_the_cpu_was() -> None:
    folded = fold_all(
        [
            Sample("t", 1, ("m`f", "m`[unknown]")),
            Sample("t", 1, ("m`f", "libc.so`[unknown]")),
            Sample("t", 1, ("m`f", "libc.so`[unknown]", "libc.so`memcpy")),
            # A system call from code without a name is the kernel's time.
            Sample("t", 1, ("m`f", "libc.so`[unknown]", "[kernel]`[unknown]")),
            Sample("t", 1, ("m`f", "libc.so`[unknown]", "[kernel]`g")),
            Sample("t", 1, ("m`[unknown]", "m`f", "[kernel]`g")),
            Sample("t", 1, ()),
        ],
        {},
    )
    assert folded.unnamed == {"m": 1, "libc.so": 1}
    assert (folded.kernel, folded.unnamed_kernel) == (3, 1)


NAMES = st.text(alphabet="abcxyz_;` ()", max_size=8)
SAMPLES = st.lists(
    st.builds(
        Sample,
        comm=NAMES,
        tid=st.integers(1, 4),
        frames=st.lists(
            st.sampled_from([
                "libc.so`[unknown]", "libc.so`clone", "m`f", "m`[unknown]", "[kernel]`k",
                "[unknown]`[unknown]",
            ]),
            max_size=6,
        ).map(tuple),
    )
)  # fmt: skip


def session_samples(tid: int, function: str, comm: str = "mysqld") -> list[Sample]:
    """Return a thread in the function of a session, and elsewhere."""
    start = ("libc.so`start_thread", "mysqld`pfs_spawn_thread")
    return [Sample(comm, tid, (*start, f"mysqld`{function}")), Sample(comm, tid, start)]


@pytest.mark.parametrize(
    "function", ["handle_connection", "do_handle_one_connection", "do_command", "dispatch_command"]
)
def test_a_session_between_the_marks_is_known_by_its_calls(function: str) -> None:
    """Threads 1 and 2 ended before the second mark; 3 waits there for connections."""
    samples = [
        *session_samples(1, function),
        *session_samples(2, function),
        *session_samples(3, function),
    ]
    folded = fold_all(samples, {3: "background"})
    assert {stack.partition(";")[0] for stack in folded.stacks} == {"connection"}
    assert sorted(folded.stacks.values()) == [3, 3]
    pooled = fold_all(samples, {3: "background"}, serving="pool")
    assert {stack.partition(";")[0] for stack in pooled.stacks} == {"pool"}


def test_calls_do_not_outrank_what_a_thread_is_known_for() -> None:
    samples = [
        *session_samples(1, "do_command"),
        *session_samples(2, "log_writer"),
        *session_samples(3, "io_handler", "io"),
    ]
    folded = fold_all(samples, {1: "observer", 2: "background"})
    assert {stack.partition(";")[0] for stack in folded.stacks} == {"observer", "background", "io"}


@given(SAMPLES)
def test_every_sample_is_in_one_stack(samples: list[Sample]) -> None:
    folded = fold_all(samples, {1: "connection"})
    assert sum(folded.stacks.values()) == folded.samples == len(samples)
    assert folded.rooted <= folded.samples
    for stack in folded.stacks:
        kind, *frames = stack.split(";")
        assert "\n" not in kind
        assert all(frame.count("`") == 1 for frame in frames)


@given(st.lists(st.text(max_size=60)))
def test_any_text_can_be_read(lines: list[str]) -> None:
    for each in parse(lines):
        assert isinstance(each, Sample | Lost)


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(0, 4)), max_size=9))
def test_what_is_printed_is_what_is_read(threads: list[tuple[int, int]]) -> None:
    text = "".join(
        f"my sql {tid} \n"
        + "".join(f"\t{at:16x} f{at} (/usr/sbin/mysqld)\n" for at in range(depth))
        + "\n"
        for tid, depth in threads
    )
    assert list(parse(text.splitlines(keepends=True))) == [
        Sample("my sql", tid, tuple(f"mysqld`f{at}" for at in reversed(range(depth))))
        for tid, depth in threads
    ]
