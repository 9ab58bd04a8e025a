"""Where threads were blocked, of documents with known counts."""

from __future__ import annotations

from collections import defaultdict

import pytest

from millrace.analysis.account import trial_account
from millrace.analysis.blocked import compare_blocked, functions
from tests.unit.analysis.observations import Scene, Truth

SYNC = "entry_SYSCALL_64_after_hwframe;do_syscall_64;do_fsync;jbd2_log_wait_commit"
FAULT = "asm_exc_page_fault;exc_page_fault;handle_mm_fault;io_schedule"
SCENE = Scene(clients=3, stacks={"log_flush": SYNC, "page_fault": FAULT}, during_sync=0.5)
WAITS = {"lock": 40.0, "log_flush": 80.0, "data_read": 20.0, "page_fault": 10.0}


def test_places_sum_up_to_the_waits_of_the_account() -> None:
    trial = SCENE.trial(Truth(waits=WAITS))
    found = trial_account(trial)
    assert found is not None
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


def test_the_longest_comes_first_and_what_one_side_lacks_took_it_no_time() -> None:
    reading, syncing = Truth(waits={"data_read": 50.0}), Truth(waits={"log_flush": 90.0})
    first, second = compare_blocked([SCENE.trial(reading)], [SCENE.trial(syncing)])
    assert (first.part, first.a_us) == ("log_flush", 0.0)
    assert (second.part, second.b_us) == ("data_read", 0.0)
    assert second.stacks == ()


def test_nothing_is_said_of_what_was_not_sampled() -> None:
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
