"""Repeat the tests that a busy host may disturb, beside a busy CPU.

    python -m tests.repeat --times 20 -n 4 --minutes 60

These are the slowest tests, and all of processes, signals and clocks, without those marked `quiet`.
Each repetition is a run of pytest. What it found is kept, so that the same command continues; it
begins anew with other tests or other sources.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import run
from tests.selection import ROOT, all_tests

SLOWEST = 40
STATE = run.DURATIONS.with_name("repeated.json")
# Ends with this process, however that ends.
BURN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"


def main(arguments: Sequence[str]) -> int:
    """Repeat the tests and print which failed; return an exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=20, help="repetitions (default: 20)")
    parser.add_argument("--minutes", type=float, help="begin no repetition after this time")
    parser.add_argument("--durations", type=Path, default=run.DURATIONS, help="of `make test`")
    parser.add_argument("--list", action="store_true", help="print the tests and end")
    parser.add_argument("-n", default="3", help="processes that run tests (default: 3)")
    chosen = parser.parse_args(arguments)
    if not chosen.durations.exists():
        print(f"{chosen.durations} is missing: run `make test`, which writes it", file=sys.stderr)
        return 2
    durations = json.loads(chosen.durations.read_text(encoding="utf-8"))
    tests = selected(durations, all_tests())
    if chosen.list:
        print(*tests, sep="\n")
        return 0
    done, failures = _kept(key := _key(tests))
    began_s = time.monotonic()
    with busy_cpu():
        while done < chosen.times:
            if chosen.minutes is not None and time.monotonic() - began_s > 60 * chosen.minutes:
                break
            failures += repetition(tests, chosen.n)
            done += 1
            state = {"key": key, "done": done, "failures": failures}
            STATE.write_text(json.dumps(state), encoding="utf-8")
            print(*summary(done, chosen.times, failures), sep="\n", flush=True)
    print(*summary(done, chosen.times, failures), sep="\n")
    return 1 if failures else 0


def selected(durations: Mapping[str, float], tests: Mapping[str, bool]) -> list[str]:
    """Return the slowest tests and the sensitive ones, which are True, by module."""
    seconds: dict[str, float] = {}
    for name, value in durations.items():
        if (test := _as_argument(name)) in tests:
            seconds[test] = max(seconds.get(test, 0), value)
    slowest = sorted(seconds, key=lambda test: -seconds[test])[:SLOWEST]
    return sorted(test for test, is_sensitive in tests.items() if is_sensitive or test in slowest)


def _as_argument(name: str) -> str:
    """Return the argument of pytest for a test, with all its parameters, of its report's name."""
    module, _, test = name.partition("::")
    return f"{module.replace('.', '/')}.py::{test.partition('[')[0]}"


def repetition(tests: Sequence[str], workers: str) -> Counter[str]:
    """Run the tests once, and return those that failed."""
    with tempfile.TemporaryDirectory(prefix="mr-tests-") as place:
        file, report = Path(place, "tests.txt"), Path(place, "report.xml")
        file.write_text("\n".join(tests), encoding="utf-8")
        command = [
            sys.executable, "-m", "pytest", "-q", "--tb=short", "-m", "not quiet", "-n", workers,
            f"--junit-xml={report}", f"@{file}",
        ]  # fmt: skip
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        failed = run.read(report, status).failed
        if status not in (0, 1):
            raise SystemExit(f"pytest ended with status {status}")
        return Counter({f"{test}: {message}": 1 for test, message in failed.items()})


def summary(done: int, times: int, failures: Mapping[str, int]) -> list[str]:
    """Return the lines that say how often each test failed, and how."""
    ordered = sorted(failures.items(), key=lambda each: (-each[1], each[0]))
    lines = [f"{count:5} × {test}" for test, count in ordered]
    return [f"{done} of {times} repetitions: {len(lines) or 'no'} failures", *lines]


@contextmanager
def busy_cpu() -> Iterator[None]:
    """Keep a CPU busy inside the block."""
    with subprocess.Popen([sys.executable, "-c", BURN]) as process:
        try:
            yield
        finally:
            process.kill()


def _key(tests: Sequence[str]) -> str:
    """Return a digest of the tests and of all Python sources."""
    digest = hashlib.sha256("\n".join(tests).encode())
    for directory in ("src", "tests"):
        for file in sorted((ROOT / directory).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _kept(key: str) -> tuple[int, Counter[str]]:
    """Return the number of repetitions that were run of the same tests, and their failures."""
    if STATE.exists():
        state = json.loads(STATE.read_text(encoding="utf-8"))
        if state["key"] == key:
            return state["done"], Counter(state["failures"])
    return 0, Counter()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
