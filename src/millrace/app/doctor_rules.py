"""Define what the doctor's checks are made of: an observed host, a rule, and its result."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from millrace.app.host_activity import Activity
from millrace.loadgen import cpu_idle
from millrace.model.host_facts import HostFacts


@dataclass(frozen=True)
class ObservedHost:
    """A host at one moment; ``work_dir`` is of instances' data, CPUs wake up with ``latencies``."""

    facts: HostFacts
    activity: Activity
    work_dir: Path
    latencies: tuple[cpu_idle.IdleLatency, ...]


@dataclass(frozen=True)
class Result:
    """The result of a rule, with a ``hint`` where something is wrong."""

    observed: str
    status: Literal["ok", "warn", "problem", "unknown"]
    hint: str | None = None


Rule = Callable[[ObservedHost], Result]
CHECKS: list[tuple[str, str, Rule]] = []  # as defined: the order of docs/doctor.md


def check(name: str, why: str) -> Callable[[Rule], Rule]:
    """Add a check that applies a rule; ``why`` says how what it examines can harm results."""

    def add(rule: Rule) -> Rule:
        CHECKS.append((name, why, rule))
        return rule

    return add


NOT_SHOWN = Result("this host does not show it", "unknown")


def warn_if(is_harmful: object, observed: str, hint: str) -> Result:
    """Return a result that is a warning where something is harmful."""
    return Result(observed, "warn", hint) if is_harmful else Result(observed, "ok")


def graded(observed: str, hint: str, *, is_ok: bool, is_problem: bool) -> Result:
    """Return a result that is fine, a problem, or else a warning."""
    if is_ok:
        return Result(observed, "ok")
    return Result(observed, "problem" if is_problem else "warn", hint)
