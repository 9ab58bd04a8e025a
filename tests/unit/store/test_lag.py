"""Test the samples of a replica's lag: written, read back, and kept with an exported run."""

from __future__ import annotations

import pytest

from millrace.model.documents import as_lines
from millrace.store import lag
from millrace.store.attempt_files import CHECKS
from millrace.store.lag import LagSample


def sample(t_s: float, lag_s: float | None) -> LagSample:
    return LagSample(
        t_s=t_s,
        written_bytes=300,
        received_bytes=200,
        applied_bytes=100,
        lag_s=lag_s,
        reported_lag_s=None,
    )


def test_samples_are_read_as_they_were_written() -> None:
    samples = (sample(0.0, None), sample(0.25, 0.0), sample(0.5, 0.25))
    assert lag.parse(as_lines(samples)) == samples


@pytest.mark.parametrize("content", [b"{}\n", b"no JSON\n", b'{"t_s": -1}\n'])
def test_other_files_are_refused_also_in_imported_runs(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        CHECKS[lag.KIND](content)
