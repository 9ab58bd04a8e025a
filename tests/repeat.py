"""Repeat the tests that a busy host may disturb, beside a busy CPU.

    python -m tests.repeat --times 20 -n 4 --minutes 60

These are the slowest tests, and all of processes, signals and clocks, without those marked `quiet`.
Runs and failures are counted by module and kept, so that the same command continues, also after
changes elsewhere; a module that changed begins anew.
"""

import argparse
import hashlib
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests import run
from tests.selection import ROOT, all_tests

SLOWEST = 40
BATCH = 16  # modules
STATE = run.DURATIONS.with_name("repeated.json")
# Ends with this process, however that ends.
BURN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"


@dataclass
class Module:
    """The tests of a module that are repeated, how often they ran, and how often each failed."""

    tests: list[str]
    key: str  # of the module's text, and these tests
    runs: int = 0
    failures: dict[str, int] = field(default_factory=dict)


def main(arguments: Sequence[str]) -> int:
    """Repeat the tests and print which failed; return an exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=20, help="repetitions (default: 20)")
    parser.add_argument("--minutes", type=float, help="begin no more modules after this time")
    parser.add_argument("--durations", type=Path, default=run.DURATIONS, help="of `make test-all`")
    parser.add_argument("--list", action="store_true", help="print the tests and end")
    parser.add_argument("-n", default="3", help="processes that run tests (default: 3)")
    chosen = parser.parse_args(arguments)
    if not chosen.durations.exists():
        print(
            f"{chosen.durations} is missing: run `make test-all`, which writes it", file=sys.stderr
        )
        return 2
    durations = json.loads(chosen.durations.read_text(encoding="utf-8"))
    tests = selected(durations, all_tests())
    if chosen.list:
        print(*tests, sep="\n")
        return 0
    modules = by_module(tests)
    _recall(modules)
    began_s = time.monotonic()
    with busy_cpu():
        while batch := next_batch(modules, chosen.times):
            if chosen.minutes is not None and time.monotonic() - began_s > 60 * chosen.minutes:
                break
            run_batch([modules[name] for name in batch], chosen.n)
            state = {name: asdict(module) for name, module in modules.items()}
            STATE.write_text(json.dumps(state, indent=0), encoding="utf-8")
            print(*summary(modules, chosen.times), sep="\n", flush=True)
    print(*summary(modules, chosen.times), sep="\n")
    return 1 if any(module.failures for module in modules.values()) else 0


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


def by_module(tests: Sequence[str], root: Path = ROOT) -> dict[str, Module]:
    """Return the tests by module."""
    modules: dict[str, Module] = {}
    for name, group in itertools.groupby(sorted(tests), lambda test: test.partition("::")[0]):
        own = list(group)
        digest = hashlib.sha256("\n".join([*own, (root / name).read_text("utf-8")]).encode())
        modules[name] = Module(own, digest.hexdigest())
    return modules


def next_batch(modules: Mapping[str, Module], times: int) -> list[str]:
    """Return modules that ran least; none where all ran ``times``."""
    fewest = min((module.runs for module in modules.values()), default=times)
    waiting = [name for name, module in modules.items() if module.runs == fewest < times]
    # A module runs in one process. Neighbours are alike, so that each batch has some of all kinds.
    return waiting[:: max(1, round(len(waiting) / BATCH))]


def run_batch(batch: Sequence[Module], workers: str) -> None:
    """Run the tests of modules once, and count."""
    failed = run_tests([test for module in batch for test in module.tests], workers)
    for module in batch:
        module.runs += 1
        for name, message in failed.items():
            if _as_argument(name) in module.tests:
                said = f"{name}: {message}"
                module.failures[said] = module.failures.get(said, 0) + 1


def run_tests(tests: Sequence[str], workers: str) -> Mapping[str, str]:
    """Run tests and return the message of each that failed."""
    with tempfile.TemporaryDirectory(prefix="mr-tests-") as place:
        file, report = Path(place, "tests.txt"), Path(place, "report.xml")
        file.write_text("\n".join(tests), encoding="utf-8")
        command = [
            sys.executable, "-m", "pytest", "-q", "--tb=short", "-m", "not quiet", "-n", workers,
            f"--junit-xml={report}", f"@{file}",
        ]  # fmt: skip
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        if status not in (0, 1):
            raise SystemExit(f"pytest ended with status {status}")
        return run.read(report, status).failed


def summary(modules: Mapping[str, Module], times: int) -> list[str]:
    """Return the lines that say how often all tests ran, and how often each failed, and how."""
    failures = [each for module in modules.values() for each in module.failures.items()]
    lines = [
        f"{count:5} × {said}" for said, count in sorted(failures, key=lambda each: (-each[1], each))
    ]
    runs = [module.runs for module in modules.values()]
    so_far = f"{min(runs, default=0)} of {times} repetitions, {sum(runs)} of {len(runs) * times}"
    return [f"{so_far} runs of modules: {len(lines) or 'no'} failures", *lines]


@contextmanager
def busy_cpu() -> Iterator[None]:
    """Keep a CPU busy inside the block."""
    with subprocess.Popen([sys.executable, "-c", BURN]) as process:
        try:
            yield
        finally:
            process.kill()


def _recall(modules: dict[str, Module]) -> None:
    """Take over the counts of modules that did not change."""
    known = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}
    for name, module in modules.items():
        if name in known and known[name]["key"] == module.key:
            modules[name] = Module(**known[name])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
