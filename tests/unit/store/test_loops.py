"""Test the figures of a trial's loops: written, read back, and kept with an exported run."""

from __future__ import annotations

import pytest

from millrace.model.documents import as_lines
from millrace.store import loops
from millrace.store.attempt_files import CHECKS
from millrace.store.loops import LoopOperation, LoopRecord


def figures(loop: int, *, cold: bool = False) -> LoopRecord:
    operation = LoopOperation(name="add_node", count=7, sum_s=0.5, encoded="HIST")
    return LoopRecord(
        loop=loop,
        transactions=100 * loop,
        errors=0,
        duration_s=2.0,
        restarted_cold=cold,
        apparent_bytes=8192,
        allocated_bytes=4096,
        operations=(operation,),
    )


def test_loops_are_read_as_they_were_written() -> None:
    written = (figures(1), figures(2, cold=True))
    assert loops.parse(as_lines(written)) == written


@pytest.mark.parametrize(
    "content",
    [b"{}\n", b"no JSON\n", as_lines([figures(2)]), as_lines([figures(1)] * 2)],
)
def test_other_files_are_refused_also_in_imported_runs(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        CHECKS[loops.KIND](content)
