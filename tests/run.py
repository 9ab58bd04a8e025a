"""Run the tests: those that measure the host run alone, and failed tests once more.

    python -m tests.run -n 4           # all that are not marked `slow`
    python -m tests.run --slow -n 4    # those that are; other options are those of pytest

The summary at the end says which tests were skipped and why, and which had to be tried again. A
test that is not marked `quiet` and passes only then has a defect, or found one; it is listed to be
mended, and does not fail the run by itself. The duration of each test is kept for `tests.repeat`.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tests.places import place_of_initialised

DURATIONS = Path(".pytest_cache", "durations.json")

_LINES = 10
# More failed tests that share the host are not an accident, and are not tried again.
_FEW = 3
_PASSED, _FAILED, _NONE = 0, 1, 5  # exit statuses of pytest: all passed, some failed, none ran
_SLOW = "--slow"
_WORKERS = re.compile(r"-n\d*|--numprocesses(=.*)?")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a pytest run.

    It has the exit status, the reason of each skipped test, the first line of each failed test's
    error, and the seconds of each test that ran."""

    status: int
    skipped: Mapping[str, str]
    failed: Mapping[str, str]
    seconds: Mapping[str, float] = field(default_factory=dict)


def main(arguments: Sequence[str]) -> int:
    """Run the tests and print the summary; return an exit status."""
    speed = "slow" if _SLOW in arguments else "not slow"
    arguments = [each for each in arguments if each != _SLOW]
    with tempfile.TemporaryDirectory(prefix="mr-tests-") as place, place_of_initialised():
        if not (_without_workers(arguments) or DURATIONS.exists()):
            _compile()
        shared = _tried(Path(place), "shared", ["-m", f"not quiet and {speed}", *arguments], _FEW)
        if shared[-1].status not in (_PASSED, _FAILED, _NONE):
            return shared[-1].status
        alone = _without_workers(arguments) or _modules_with_quiet_tests()
        quiet = _tried(Path(place), "quiet", ["-m", f"quiet and {speed}", *alone])
    keep_durations({**shared[0].seconds, **quiet[0].seconds})
    print(*summary(shared, quiet), sep="\n")
    statuses = (shared[-1].status, quiet[-1].status)
    return next((status for status in statuses if status not in (_PASSED, _NONE)), _PASSED)


def summary(*kinds: Sequence[Outcome]) -> list[str]:
    """Return the lines that list skipped tests and tests that ran twice.

    Each argument has the outcome of a run, and that of the repetition of its failed tests, if any.
    """
    skipped = {test: reason for first, *_ in kinds for test, reason in first.skipped.items()}
    lines = [f"{len(skipped)} skipped{':' if skipped else ''}", *_by_reason(skipped)]
    for first, *others in kinds:
        for again in others:
            for test, message in first.failed.items():
                ended = "failed again" if test in again.failed else "passed then"
                lines.append(f"tried twice, {ended}: {test}: {message}")
    return lines


def keep_durations(seconds: Mapping[str, float], file: Path = DURATIONS) -> None:
    """Write the seconds of tests by name; those of tests that did not run now stay."""
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({**known, **seconds}, indent=0), encoding="utf-8")


def _by_reason(skipped: Mapping[str, str]) -> list[str]:
    """Return a line for each reason, the most frequent first; the last one counts the rest."""
    tests = defaultdict(list)
    for test, reason in skipped.items():
        tests[reason].append(test)
    ordered = sorted(tests.items(), key=lambda each: (-len(each[1]), each[0]))
    shown = ordered if len(ordered) < _LINES else ordered[: _LINES - 2]
    lines = [f"{len(names):5} × {reason} ({_modules(names)})" for reason, names in shown]
    left = sum(len(names) for _, names in ordered[len(shown) :])
    return [*lines, f"{left:5} × {len(ordered) - len(shown)} other reasons"] if left else lines


def _modules(names: Sequence[str]) -> str:
    """Return the module that has most of these tests, and how many others have some."""
    (first, _), *others = Counter(name.partition("::")[0] for name in names).most_common()
    return f"{first} and {len(others)} more" if others else first


def _tried(
    place: Path, name: str, arguments: Sequence[str], few: int | None = None
) -> list[Outcome]:
    """Run tests, and then those that failed, alone; not if more than ``few`` failed."""
    first = _pytest(place / f"{name}.xml", [*arguments, "--cache-clear"])
    if first.status != _FAILED or (few is not None and len(first.failed) > few):
        return [first]
    only_failed = ["--last-failed", "--last-failed-no-failures=none"]
    again = _pytest(place / f"{name}-again.xml", [*_without_workers(arguments), *only_failed])
    return [first, again]


def _modules_with_quiet_tests() -> list[str]:
    """Return the files that have some: to import all others takes ten seconds."""
    files = sorted(Path("tests").rglob("test_*.py"))
    return [str(each) for each in files if "mark.quiet" in each.read_text(encoding="utf-8")]


def _compile() -> None:
    """Write the bytecode of a new checkout, which each worker would otherwise make for itself."""
    files = sorted(map(str, Path("tests").rglob("test_*.py")))
    command = [sys.executable, "-m", "pytest", "--quiet", "--collect-only"]
    collecting = [
        subprocess.Popen([*command, *half], stdout=subprocess.DEVNULL)
        for half in (files[::2], files[1::2])
        if half
    ]
    for each in collecting:
        each.wait()


def _pytest(report: Path, arguments: Sequence[str]) -> Outcome:
    command = [sys.executable, "-m", "pytest", f"--junit-xml={report}", *arguments]
    print("+", *command[1:], flush=True)
    status = subprocess.run(command, check=False).returncode
    return read(report, status)


def read(report: Path, status: int) -> Outcome:
    """Return the outcome from pytest's report; an empty one where pytest wrote none."""
    skipped, failed, seconds = {}, {}, {}
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}"
            seconds[name] = float(case.get("time") or 0)
            for said in case:
                message = " ".join((said.get("message") or "").split())
                if said.tag == "skipped":
                    skipped[name] = message
                elif said.tag in ("failure", "error"):
                    failed[name] = message[:200]
    return Outcome(status, skipped, failed, seconds)


def _without_workers(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without the number of worker processes."""
    kept = []
    rest = iter(arguments)
    for each in rest:
        if not _WORKERS.fullmatch(each):
            kept.append(each)
        elif each in ("-n", "--numprocesses"):
            next(rest, None)
    return kept


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
