"""Test the stacks in which threads were blocked, of documents with known counts."""

from collections import defaultdict
from dataclasses import replace

import pytest

from millrace.analysis.explain.blocking_stacks import compare_blocked, contradicts, functions
from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.time_breakdown import (
    breakdown_difference,
    time_breakdown,
    trial_breakdown,
)
from tests.support.known import known
from tests.support.observed_trials import Scene, Truth, seen

SYNC = "entry_SYSCALL_64_after_hwframe;do_syscall_64;do_fsync;jbd2_log_wait_commit"
FAULT = "asm_exc_page_fault;exc_page_fault;handle_mm_fault;io_schedule"
SCENE = Scene(clients=3, stacks={"log_flush": SYNC, "page_fault": FAULT}, during_sync=0.5)
WAITS = {"lock": 40.0, "log_flush": 80.0, "data_read": 20.0, "page_fault": 10.0}


def test_places_sum_up_to_the_waits_of_the_account() -> None:
    trial = SCENE.trial(Truth(waits=WAITS))
    found = known(trial_breakdown(trial))
    sums: defaultdict[str, float] = defaultdict(float)
    for row in compare_blocked([trial], [trial]):
        assert row.a_us == row.b_us
        sums[row.part] += row.a_us
    waited = {key: found.parts[key].us for key in ("lock", "log_flush", "data_read")}
    assert sums == {key: pytest.approx(us) for key, us in waited.items()}


def test_each_side_is_the_mean_of_its_trials() -> None:
    slow, slower = (SCENE.trial(Truth(waits={"log_flush": us})) for us in (100.0, 300.0))
    (row,) = compare_blocked([slow, slower], [slow])
    assert (row.title, row.call, row.target) == ("waiting for the log to be flushed", None, None)
    alone = compare_blocked([slower], [slow])[0]
    assert row.a_us == pytest.approx((alone.a_us + alone.b_us) / 2)
    (stack,) = row.stacks
    assert stack.functions == ("do_fsync", "jbd2_log_wait_commit")
    assert stack.a_us == pytest.approx(row.a_us)
    assert stack.b_us == pytest.approx(row.b_us)


def test_longest_call_is_first_and_missing_one_takes_no_time() -> None:
    reading, syncing = Truth(waits={"data_read": 50.0}), Truth(waits={"log_flush": 90.0})
    first, second = compare_blocked([SCENE.trial(reading)], [SCENE.trial(syncing)])
    assert (first.part, first.a_us) == ("log_flush", 0.0)
    assert (second.part, second.b_us) == ("data_read", 0.0)
    assert second.stacks == ()


def test_idle_threads_of_a_pool_are_in_no_row() -> None:
    """The breakdown excludes the waits of idle threads, so no row may contain them."""
    made = replace(SCENE, serving="pool").attempt(Truth(waits=WAITS))
    (server,) = made.instances
    effective = {**server.effective, "thread_handling": "pool-of-threads"}
    pooled = replace(made, instances=(replace(server, effective=effective),))
    trial = ObservedTrial("trial", 0, pooled, seen(pooled, SCENE.clients))
    assert trial.observed.pooled
    rows = compare_blocked([trial], [trial])
    assert {row.part for row in rows} == {"data_read", "log_flush"}


def test_trials_that_the_account_leaves_out_are_in_no_row() -> None:
    """One block was not sampled on one side, and one trial has no clock of its threads."""
    truth, longer = Truth(waits={"data_read": 50.0}), Truth(waits={"data_read": 500.0})
    unclocked = SCENE.document(longer)
    del unclocked["threads"]
    a = [SCENE.trial(truth, 0), SCENE.trial(truth, 1), SCENE.trial(longer, 2, unclocked)]
    b = [SCENE.trial(truth, 0), SCENE.trial(longer, 3)]
    of_a, of_b = time_breakdown(a), time_breakdown(b)
    assert of_a is not None
    assert of_b is not None
    compared = known(breakdown_difference(of_a, of_b))
    (line,) = (line for line in compared.lines if line.key == "data_read")
    (row,) = compare_blocked(a, b)
    assert row.a_us == pytest.approx(line.a_us)
    assert row.b_us == pytest.approx(line.b_us)


@pytest.mark.parametrize(
    ("call", "stack", "is_another"),
    [
        ("pwrite64", "do_syscall_64;__x64_sys_pread64;vfs_read;ext4_file_read_iter", True),
        ("pwrite64", "vfs_read;ext4_file_read_iter;iomap_dio_rw", True),
        ("pread64", "ext4_buffered_write_iter;generic_perform_write", True),
        ("pwrite64", "__x64_sys_fsync;do_fsync;ext4_sync_file", True),
        ("fsync", "vfs_write;ext4_file_write_iter", True),
        ("pwrite64", "__arm64_sys_pwrite64;vfs_write;ext4_file_write_iter", False),
        ("pread64", "vfs_read;ext4_file_read_iter", False),
        ("preadv2", "vfs_readv;do_iter_read;xfs_file_read_iter", False),
        ("fdatasync", "__x64_sys_fdatasync;do_fsync;ext4_sync_file", False),
        # A synced write, and fragments of stacks without a meaning.
        ("pwrite64", "vfs_write;ext4_file_write_iter;ext4_sync_file", False),
        ("pwrite64", "ext4_sync_file;blkdev_issue_flush;submit_bio_wait", False),
        ("pread64", "__iomap_dio_rw", False),
        ("pread64", None, False),
        # Calls that may do either.
        ("io_submit", "ext4_file_read_iter", False),
        (None, "ext4_file_read_iter", False),
    ],
)
def test_stacks_of_another_call_are_known(
    call: str | None, stack: str | None, is_another: bool
) -> None:
    assert contradicts(call, stack) == is_another


def test_a_stack_of_another_call_is_not_shown_and_its_time_is_kept() -> None:
    read = "entry_SYSCALL_64_after_hwframe;do_syscall_64;__x64_sys_pread64;vfs_read"
    scene = replace(SCENE, stacks={"data_write": read})
    document = scene.document(Truth(waits={"data_write": 50.0}))
    for thread in document["states"]["threads"]:
        for state in thread["states"]:
            if state["class"] == "data_write":
                state["syscall"] = "pwrite64"
    trial = scene.trial(Truth(waits={"data_write": 50.0}), document=document)
    (row,) = compare_blocked([trial], [trial])
    assert (row.call, row.stacks) == ("pwrite64", ())
    assert row.a_us == pytest.approx(50.0, rel=0.02)


def test_blocked_calls_are_empty_when_not_sampled() -> None:
    truth = Truth(waits=WAITS)
    document = SCENE.document(truth)
    del document["states"]
    unseen = SCENE.trial(truth, document=document)
    assert compare_blocked([SCENE.trial(truth)], [unseen]) == ()


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (SYNC, ("do_fsync", "jbd2_log_wait_commit")),
        (FAULT, ("handle_mm_fault", "io_schedule")),
        ("do_syscall_64;__x64_sys_pread64;ext4_file_read_iter", ("ext4_file_read_iter",)),
        ("jbd2_log_wait_commit", ("jbd2_log_wait_commit",)),
        ("", ()),
        (None, ()),
    ],
)
def test_functions_that_lead_into_the_kernel_are_left_out(
    stack: str | None, expected: tuple[str, ...]
) -> None:
    assert functions(stack) == expected
