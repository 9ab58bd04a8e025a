"""Events of the load generator, made for tests."""

from typing import Literal

from millrace.loadgen.events import DriveInterval, Mark, MarkName, PhaseResult


def mark(name: MarkName, phase: str = "measure") -> Mark:
    return Mark(phase=phase, mark=name, t_s=0.0)


def interval() -> DriveInterval:
    return DriveInterval(
        phase="measure", part="measure", t_s=1.0, duration_s=1.0, transactions=1, statements=1,
        errors=0, retries=0, late=0, skipped=0, rows=1, bytes=1, p50_us=1, p99_us=1, max_us=1,
    )  # fmt: skip


def phase_ended(name: str, kind: Literal["statement", "load_data"] = "statement") -> PhaseResult:
    return PhaseResult(
        name=name, kind=kind, duration_s=1.0, affected_rows=0, warnings=0, rows_sent=0,
        bytes_sent=0, generator_wait_s=None, result=None,
    )  # fmt: skip
