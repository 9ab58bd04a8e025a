"""Test a recording that begins and ends repeatedly, with a stand-in for perf."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from millrace.collect.profiling.recording import Recording, Settings
from millrace.host.perf import Perf

SETTINGS = Settings(199, "none")

# Stores its stdin as its samples, and prints them on request.
STAND_IN = """#!{python} -I
import os, signal, sys
options = dict(each.split("=", 1) for each in sys.argv if "=" in each)
if sys.argv[1] == "script":
    print(open(options["--input"]).read(), end="")
    sys.exit(0)
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
kept = open(options["--output"], "a", buffering=1)
kept.write("started\\n")
if "--control" not in options:
    signal.pause()
commands, answers = map(int, options["--control"].removeprefix("fd:").split(","))
has_begun = False
for command in os.fdopen(commands):
    kept.write(command)
    if has_begun and command.strip() == "{unanswered}":
        break
    has_begun = has_begun or command.strip() == "enable"
    os.write(answers, b"ack\\n\\0")
    if command.strip() == "{last}":
        break
"""


@contextlib.contextmanager
def recording(
    directory: Path, *, has_control: bool, last: str = "", unanswered: str = ""
) -> Iterator[Recording]:
    program = directory / "perf"
    program.write_text(STAND_IN.format(python=sys.executable, last=last, unanswered=unanswered))
    program.chmod(0o755)
    by = Perf(str(program), unwinds=False, has_control=has_control, has_size_limit=True)
    with contextlib.closing(Recording(by, os.getpid(), SETTINGS)) as recorded:
        yield recorded


def words(recorded: Recording) -> list[str]:
    return [line.strip() for line in recorded.lines()]


def test_a_perf_that_has_control_adds_to_what_it_recorded(tmp_path: Path) -> None:
    with recording(tmp_path, has_control=True) as recorded:
        seconds = []
        for _ in range(3):
            assert recorded.may_resume
            recorded.begin()
            recorded.end()
            seconds.append(recorded.seconds)
        assert seconds == sorted(set(seconds))  # they add up
        assert words(recorded) == ["started", "disable", *["enable", "disable"] * 3]


def test_recording_cannot_resume_without_control(tmp_path: Path) -> None:
    with recording(tmp_path, has_control=False) as recorded:
        recorded.begin()
        assert not recorded.may_resume
        recorded.end()
        assert not recorded.may_resume


def test_a_perf_that_has_ended_is_not_resumed(tmp_path: Path) -> None:
    with recording(tmp_path, has_control=True, last="enable") as recorded:
        recorded.begin()
        deadline = time.monotonic() + 10
        while recorded.may_resume and time.monotonic() < deadline:
            time.sleep(0.01)
        recorded.end()
        assert recorded.was_cut
        assert not recorded.may_resume


def test_a_perf_that_ends_instead_of_answering_was_cut(tmp_path: Path) -> None:
    with recording(tmp_path, has_control=True, unanswered="disable") as recorded:
        recorded.begin()
        recorded.end()
        assert recorded.was_cut
        assert words(recorded) == ["started", "disable", "enable", "disable"]
