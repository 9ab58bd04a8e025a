"""Test the sampler of threads, and samplers that do not work."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from millrace.collect import thread_states
from millrace.collect.threads import thread_sampler
from millrace.collect.threads.thread_sampler import ThreadSampler
from millrace.errors import Unavailable
from tests.unit.collect.test_thread_states import CONTEXT, COUNTS


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a load generator that runs the test's Python code."""
    file = tmp_path / "millrace-load"
    monkeypatch.setenv("MILLRACE_LOAD", str(file))
    return file


def write(program: Path, script: str) -> None:
    program.write_text(f"#!{sys.executable}\nimport os, sys, time\n{script}\n")
    program.chmod(0o755)


READY = 'print(\'{"type": "ready"}\', flush=True)\n'


@pytest.mark.parametrize(
    ("cpus", "connections", "share"),
    [
        (None, 1, 0.0025),
        (2, 1, 0.005),
        (4, 1, 0.01),
        (96, 1, 0.01),
        (2, 4, 0.0025),
        (2, 16, 0.002),
        (96, 1000, 0.01),
    ],
)
def test_looking_takes_little_of_one_cpu_and_of_all(
    cpus: int | None, connections: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)
    assert thread_sampler.budget(connections) == share


def test_a_sampler_from_begin_to_end(program: Path) -> None:
    answer = {**COUNTS, "threads": [{**COUNTS["threads"][1], "name": "y" * 200_000}]}
    write(
        program,
        READY
        + "assert sys.argv[1:5] == ['--die-with-parent', 'threads', '--pid', '42']\n"
        + f"assert sys.argv[5:] == ['--budget', '{thread_sampler.budget(1):g}']\n"
        + "assert [sys.stdin.readline() for _ in range(2)] == ['begin\\n', 'end\\n']\n"
        # More than a pipe holds, in two parts.
        + f"answer = {json.dumps(answer)!r}\n"
        + "sys.stdout.write(answer[:150_000]); sys.stdout.flush(); time.sleep(0.05)\n"
        + "print(answer[150_000:], flush=True)",
    )
    sampler = ThreadSampler(42, 1)
    try:
        sampler.send("begin")
        sampler.send("end")
        assert len(sampler.samples().threads[0].name) == 200_000
    finally:
        sampler.close()
    assert sampler._process.returncode == 0


def test_a_load_generator_that_cannot_do_it(program: Path) -> None:
    write(program, "sys.exit(\"error: unrecognized subcommand 'threads'\")")
    with pytest.raises(Unavailable, match="has no command for it") as caught:
        ThreadSampler(42, 1)
    assert caught.value.hint == "run `make setup`"


def test_sampler_reports_why_it_cannot_sample(program: Path) -> None:
    write(program, "sys.exit('millrace-load: the threads of process 42 may not be inspected')")
    with pytest.raises(Unavailable, match="process 42 may not be inspected"):
        ThreadSampler(42, 1)


def test_no_load_generator(program: Path) -> None:
    with pytest.raises(Unavailable, match="not a program"):
        ThreadSampler(42, 1)


def test_a_sampler_that_ends_before_its_end(program: Path) -> None:
    write(program, READY + "sys.stdin.readline(); sys.exit('it was enough')")
    sampler = ThreadSampler(42, 1)
    try:
        sampler.send("begin")
        with pytest.raises(Unavailable, match="it was enough"):
            sampler.samples()
        with pytest.raises(Unavailable, match="it was enough"):
            sampler.send("end")
    finally:
        sampler.close()


def test_silent_sampler_times_out(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_sampler, "_READY_LIMIT_S", 0.3)
    monkeypatch.setattr(thread_sampler, "_ANSWER_LIMIT_S", 0.3)
    write(program, "time.sleep(60)")
    with pytest.raises(Unavailable, match=r"did not answer in 0\.3 s"):
        ThreadSampler(42, 1)
    write(program, READY + "sys.stdin.readline(); time.sleep(60)")
    sampler = ThreadSampler(42, 1)
    sampler.send("begin")
    with pytest.raises(Unavailable, match=r"did not answer in 0\.3 s"):
        sampler.samples()
    sampler.close()
    assert sampler._process.returncode is not None


def test_sampler_ends_without_a_begin(program: Path) -> None:
    write(program, READY + "sys.stdin.read()")
    sampler = ThreadSampler(42, 1)
    sampler.close()
    assert sampler._process.returncode == 0


def test_a_real_sampler_of_this_process() -> None:
    try:
        sampler = ThreadSampler(os.getpid(), 1)
    except Unavailable as lack:
        pytest.skip(lack.message)
    try:
        sampler.send("begin")
        time.sleep(0.3)
        sampler.send("end")
        counts = sampler.samples()
    finally:
        sampler.close()
    assert os.getpid() in {thread.tid for thread in counts.threads}
    assert (thread_states.classified(counts, {}, CONTEXT).ticks or 0) > 0


def test_a_process_that_is_gone() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with pytest.raises(Unavailable, match="threads cannot be sampled"):
        ThreadSampler(gone.pid, 1)


def test_an_answer_without_what_is_needed(program: Path) -> None:
    write(program, READY + 'print(\'{"type": "threads", "ticks": 1}\', flush=True)')
    sampler = ThreadSampler(42, 1)
    with pytest.raises(Unavailable, match="threads cannot be sampled"):
        sampler.samples()
    sampler.close()
