"""Test that imports judge failures, and refuse runs that cannot be compared."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from millrace.errors import UserError
from millrace.importers import (
    hammerdb,
    hyperfine,
    mysqlslap,
    paired,
    pgbench,
    sysbench,
    text_output,
)
from millrace.importers.text_output import Reader
from tests.support.judged import call

SYSBENCH = """\
sysbench {version} (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: {threads}

SQL statistics:
    transactions:                        {transactions}  ({rate} per sec.)
    queries:                             200000 (20000.00 per sec.)
    ignored errors:                      {errors}      (900.00 per sec.)
    reconnects:                          {reconnects}      (0.00 per sec.)

General statistics:
    total time:                          {seconds:.4f}s
    total number of events:              {transactions}
"""
PGBENCH = """\
pgbench ({version})
transaction type: {kind}
scaling factor: {scale}
query mode: {mode}
number of clients: {clients}
number of threads: 2
maximum number of tries: 1
duration: {duration} s
number of transactions actually processed: 24360
number of failed transactions: {failed} (1.000%)
latency average = 9.850 ms
initial connection time = 22.1 ms
tps = {rate} (without initial connection time)
"""
SLAP = """\
Benchmark
\tRunning for engine innodb
\tAverage number of seconds to run all queries: {seconds} seconds
\tMinimum number of seconds to run all queries: 8.753 seconds
\tMaximum number of seconds to run all queries: 8.753 seconds
\tNumber of clients running queries: {clients}
\tAverage number of queries per client: 1000
"""
HAMMERDB = """\
HammerDB CLI v{version}
Vuser 1:Beginning rampup time of 2 minutes
Vuser 1:Timing test period of {minutes} in minutes
Vuser 1:Test complete, Taking end Transaction Count.
Vuser 1:{users} Active Virtual Users configured
Vuser 1:TEST RESULT : System achieved {nopm} NOPM from 81705 {family} TPM
"""


def of_sysbench(**changed: object) -> str:
    usual = {"version": "1.0.20", "threads": 8, "transactions": 10_000, "rate": "1000.00"}
    usual |= {"errors": 0, "reconnects": 0, "seconds": 10.0}
    return SYSBENCH.format(**{**usual, **changed})


def of_pgbench(**changed: object) -> str:
    usual = {"version": "16.2", "kind": "<builtin: TPC-B (sort of)>", "scale": 50, "clients": 8}
    usual |= {"mode": "simple", "duration": 30, "failed": 0, "rate": "811.3"}
    return PGBENCH.format(**{**usual, **changed})


def of_hammerdb(**changed: object) -> str:
    usual = {"version": "4.9", "minutes": 5, "users": 4, "nopm": 35_576, "family": "MySQL"}
    return HAMMERDB.format(**{**usual, **changed})


def kept(folder: Path, texts: dict[str, str]) -> list[Path]:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def refused(read: Reader, folder: Path, texts: dict[str, str]) -> UserError:
    with pytest.raises(UserError) as caught:
        text_output.read(read, kept(folder, texts))
    assert caught.value.hint
    return caught.value


def exported(folder: Path, name: str, *results: dict[str, object]) -> Path:
    path = folder / name
    path.write_text(json.dumps({"results": list(results)}), encoding="utf-8")
    return path


@pytest.mark.parametrize("statuses", [[1, 1, 1], [0, 0, 1], [None, 0], [137]])
def test_commands_that_failed_are_refused(tmp_path: Path, statuses: list[int | None]) -> None:
    old = {"command": "old", "mean": 1.0, "exit_codes": [0, 0, 0]}
    new = {"command": "new", "mean": 0.02, "exit_codes": statuses}
    files = [exported(tmp_path, f"{block}.json", old, new) for block in range(3)]
    with pytest.raises(UserError, match=r"0\.json, results\[1\] \(new\) failed in \d of") as caught:
        hyperfine.read(files)
    assert "--ignore-failure" in (caught.value.hint or "")


def test_measurements_of_version_2_that_failed_are_refused(tmp_path: Path) -> None:
    measured = [{"time_wall_clock": {"value": 1.0}, "exit_code": code} for code in (0, 3)]
    path = exported(tmp_path, "a.json", {"command": "new", "measurements": measured})
    with pytest.raises(UserError, match="failed in 1 of 2 runs: exit status 3"):
        hyperfine.read([path])


def test_a_killed_command_has_no_exit_status(tmp_path: Path) -> None:
    killed = {"command": "new", "mean": 1.0, "exit_codes": [None, None]}
    mixed = {"command": "new", "mean": 1.0, "exit_codes": [None, 1, 0]}
    with pytest.raises(UserError, match=r"failed in 2 of 2 runs: killed by a signal$"):
        hyperfine.read([exported(tmp_path, "a.json", killed)])
    with pytest.raises(UserError, match=r"in 2 of 3 runs: exit status 1; killed by a signal$"):
        hyperfine.read([exported(tmp_path, "b.json", mixed)])


def piped(text: str) -> int:
    """Return the end of a pipe from which ``text`` can be read once."""
    reads, writes = os.pipe()
    with os.fdopen(writes, "w", encoding="utf-8") as pipe:
        pipe.write(text)
    return reads


@pytest.mark.parametrize("second", [1.0, 1.5])
def test_files_of_hyperfine_are_read_from_pipes_and_refused_if_equal(second: float) -> None:
    texts = [json.dumps({"results": [{"command": "old", "mean": mean}]}) for mean in (1.0, second)]
    ends = [piped(text) for text in texts]
    paths = [Path(f"/dev/fd/{end}") for end in ends]
    try:
        if second == 1.0:
            with pytest.raises(UserError, match="equal contents"):
                hyperfine.read(paths)
        else:
            assert [each.value for each in hyperfine.read(paths).values] == [1.0, 1.5]
    finally:
        for end in ends:
            os.close(end)


def test_scans_of_one_name_are_distinguished_by_parameters(tmp_path: Path) -> None:
    results = [
        {"command": "load", "mean": float(n), "parameters": {"threads": str(n)}} for n in (1, 8)
    ]
    found = hyperfine.read([exported(tmp_path, "a.json", *results)]).values
    assert [each.treatment for each in found] == ["load (threads=1)", "load (threads=8)"]


def test_one_file_of_hyperfine_given_twice_is_refused(tmp_path: Path) -> None:
    results = ({"command": "old", "mean": 1.0}, {"command": "new", "mean": 2.0})
    files = [exported(tmp_path, f"{block}.json", *results) for block in range(2)]
    with pytest.raises(UserError, match="equal contents"):
        hyperfine.read(files)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (sysbench.read, of_sysbench()),
        (pgbench.read, of_pgbench()),
        (mysqlslap.read, SLAP.format(seconds="8.753", clients=1)),
        (hammerdb.read, of_hammerdb()),
    ],
)
def test_one_run_under_two_names_is_refused(tmp_path: Path, read: Reader, text: str) -> None:
    error = refused(read, tmp_path, {"old-1.log": text, "old-2.log": text})
    assert "equal contents" in error.message


@pytest.mark.parametrize(
    ("read", "base", "other", "said"),
    [
        (sysbench.read, of_sysbench(), of_sysbench(threads=64, rate=2), "threads (8 and 64)"),
        (
            sysbench.read,
            of_sysbench(),
            of_sysbench(transactions=60_000, seconds=60.0),
            "duration (10 s and 60 s)",
        ),
        (
            sysbench.read,
            "$ sysbench oltp_read_only --tables=8 --table-size=100 --threads=8 run\n"
            + of_sysbench(),
            "$ sysbench oltp_read_only --tables=8 --table_size=900 --threads=8 run\n"
            + of_sysbench(),
            "--table-size (100 and 900)",
        ),
        (
            sysbench.read,
            "sysbench oltp_read_only --tables=8 run\n" + of_sysbench(),
            "sysbench /usr/share/sysbench/oltp_read_write.lua --tables=8 run\n" + of_sysbench(),
            "test (oltp_read_only and oltp_read_write)",
        ),
        (pgbench.read, of_pgbench(), of_pgbench(clients=64), "number of clients (8 and 64)"),
        (pgbench.read, of_pgbench(), of_pgbench(scale=1), "scaling factor (50 and 1)"),
        (pgbench.read, of_pgbench(), of_pgbench(mode="prepared"), "query mode"),
        (pgbench.read, of_pgbench(), of_pgbench(duration=60), "duration (30 s and 60 s)"),
        (pgbench.read, of_pgbench(), of_pgbench(kind="<builtin: select only>"), "transaction type"),
        (
            mysqlslap.read,
            SLAP.format(seconds="8.753", clients=1),
            SLAP.format(seconds="8.753", clients=8),
            "number of clients (1 and 8)",
        ),
        (hammerdb.read, of_hammerdb(), of_hammerdb(users=8), "virtual users (4 and 8)"),
        (hammerdb.read, of_hammerdb(), of_hammerdb(minutes=9), "duration (5 and 9)"),
    ],
)
def test_runs_with_different_settings_are_refused(
    tmp_path: Path, read: Reader, base: str, other: str, said: str
) -> None:
    error = refused(read, tmp_path, {"old-1.log": base, "new-1.log": other})
    assert said in error.message
    assert "old-1.log" in error.message
    assert "new-1.log" in error.message


@pytest.mark.parametrize(
    ("read", "base", "other", "programs"),
    [
        (
            sysbench.read,
            of_sysbench(),
            of_sysbench(version="1.1.0", rate=2),
            ("sysbench 1.0.20", "sysbench 1.1.0"),
        ),
        (
            pgbench.read,
            of_pgbench(version="PostgreSQL) 13.4 (Debian 13.4-1"),
            of_pgbench(version="16.2 (Debian 16.2-1), server 15.4"),
            ("pgbench 13.4", "pgbench 16.2"),
        ),
        (
            hammerdb.read,
            of_hammerdb(),
            of_hammerdb(version="5.0"),
            ("HammerDB 4.9", "HammerDB 5.0"),
        ),
    ],
)
def test_different_versions_of_the_program_are_noted(
    tmp_path: Path, read: Reader, base: str, other: str, programs: tuple[str, str]
) -> None:
    found = text_output.read(read, kept(tmp_path, {"old-1.log": base, "new-1.log": other}))
    assert len(found.values) == 2
    (note,) = found.notes
    for program, name in zip(programs, ("old-1.log", "new-1.log"), strict=True):
        assert f"{program} ({tmp_path / name})" in note


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("pgbench (PostgreSQL) 13.4", "pgbench 13.4"),
        ("pgbench (17devel)", "pgbench 17devel"),
        ("pgbench (16.2, server 15.4)", "pgbench 16.2"),
    ],
)
def test_the_version_of_pgbench_is_read(line: str, program: str) -> None:
    text = of_pgbench().replace("pgbench (16.2)", line)
    assert pgbench.read(text).program == program


def test_settings_that_change_nothing_may_differ(tmp_path: Path) -> None:
    command = "sysbench oltp_read_only --mysql-port={port} --rand-seed={port} --tables=8 run\n"
    texts = {
        "old-1.log": command.format(port=3306) + of_sysbench(),
        "new-1.log": command.format(port=3307) + of_sysbench(rate="900.00", seconds=10.9),
    }
    assert len(text_output.read(sysbench.read, kept(tmp_path, texts)).values) == 2


def test_a_fixed_number_of_events_may_take_any_time(tmp_path: Path) -> None:
    texts = {
        "old-1.log": of_sysbench(rate="1000.00", seconds=10.0),
        "new-1.log": of_sysbench(rate="400.00", seconds=25.0),
    }
    assert len(text_output.read(sysbench.read, kept(tmp_path, texts)).values) == 2


def test_numbers_of_threads_are_not_blocks(tmp_path: Path) -> None:
    texts = {
        f"{name}.{threads}.out": of_sysbench(threads=threads, rate=f"{rate * threads}.00")
        for name, rate in (("mysql57", 500), ("mysql80", 480))
        for threads in (1, 8, 64)
    }
    error = refused(sysbench.read, tmp_path, texts)
    assert "is its number of threads, not a block" in error.message
    assert "TREATMENT-BLOCK" in (error.hint or "")


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (sysbench.read, "FATAL: mysql_drv_query() returned error 1213\n" + of_sysbench(), "FATAL"),
        (
            pgbench.read,
            of_pgbench() + "pgbench: error: Run was aborted; results",
            "Run was aborted",
        ),
        (
            pgbench.read,
            of_pgbench().replace("processed: 24360", "processed: 9000/10000"),
            "9000 of 10000 transactions",
        ),
        (mysqlslap.read, "mysqlslap: Cannot run query SELECT 1 ERROR : Gone\n", "Cannot run query"),
        (hammerdb.read, of_hammerdb() + "Vuser 3:FINISHED FAILED\n", "FINISHED FAILED"),
    ],
)
def test_runs_that_failed_are_refused(tmp_path: Path, read: Reader, text: str, said: str) -> None:
    assert said in refused(read, tmp_path, {"old-1.log": text}).message


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (pgbench.read, of_pgbench() * 2),
        (mysqlslap.read, SLAP.format(seconds="8.753", clients=1) * 2),
        (mysqlslap.read, ",mixed,0.042,0.042,0.042,1,100\n,mixed,0.102,0.102,0.102,8,100\n"),
        (hammerdb.read, of_hammerdb() * 2),
    ],
)
def test_several_runs_in_a_file_are_refused(tmp_path: Path, read: Reader, text: str) -> None:
    error = refused(read, tmp_path, {"old-1.log": text})
    assert "of 2 runs" in error.message
    assert "in a file of its own" in (error.hint or "")


@pytest.mark.parametrize(
    ("read", "text", "value", "unit"),
    [
        (sysbench.read, "Throughput:\n    events/s (eps):   114.0161\n", 114.0161, "events/s"),
        (sysbench.read, "CPU speed:\n    events per second:   912.35\n", 912.35, "events/s"),
        (
            sysbench.read,
            "Total operations: 52428 (5242880.12 per second)\n",
            5242880.12,
            "operations/s",
        ),
        (
            sysbench.read,
            "File operations:\n    reads/s:  3061.75\n    writes/s:  2041.17\n    fsyncs/s: 9.1\n",
            5102.92,
            "reads and writes/s",
        ),
        (
            sysbench.read,
            "Throughput:\n  read:  IOPS=3061.75 47.84 MiB/s\n  write: IOPS=2041.17 31.89 MiB/s\n",
            5102.92,
            "reads and writes/s",
        ),
        (
            sysbench.read,
            "General statistics:\n    total time:     10.0s\n    total number of events:   2345\n",
            234.5,
            "events/s",
        ),
        (mysqlslap.read, SLAP.format(seconds="8.753", clients=1), 8.753, "s"),
        (mysqlslap.read, "innodb,mixed,0.042,0.041,0.043,8,100\n", 0.042, "s"),
        (hammerdb.read, of_hammerdb(), 35_576, "NOPM"),
        (hammerdb.read, of_hammerdb(family="MariaDB"), 35_576, "NOPM"),
    ],
)
def test_the_rates_of_each_program_are_read(
    tmp_path: Path, read: Reader, text: str, value: float, unit: str
) -> None:
    found = text_output.read(read, kept(tmp_path, {"old-1.log": text}))
    assert found.values[0].value == pytest.approx(value)
    assert found.measure.unit == unit
    assert found.measure.better().basis == "file"


def checkpoints(*counts_and_rates: tuple[int, float]) -> str:
    return "".join(
        f"[ {30 * number}s ] Checkpoint report:\nSQL statistics:\n"
        f"    transactions:     {count}   ({rate:.2f} per sec.)\n"
        for number, (count, rate) in enumerate(counts_and_rates, 1)
    )


def test_the_last_checkpoint_is_read_and_named(tmp_path: Path) -> None:
    texts = {"old-1.log": checkpoints((3000, 100), (3300, 110))}
    found = text_output.read(sysbench.read, kept(tmp_path, texts))
    assert found.values[0].value == 110
    assert "report 2 of 2 is read" in found.notes[0]


@pytest.mark.parametrize(("count", "rate", "value"), [(3600, 120.0, 120), (3, 300.0, 110)])
def test_the_rest_after_the_last_checkpoint_is_read_unless_short(
    tmp_path: Path, count: int, rate: float, value: float
) -> None:
    final = f"SQL statistics:\n    transactions:   {count}   ({rate:.2f} per sec.)\n"
    texts = {"old-1.log": checkpoints((3000, 100), (3300, 110)) + final}
    assert text_output.read(sysbench.read, kept(tmp_path, texts)).values[0].value == value


def judged(folder: Path, program: str, texts: dict[str, str]) -> tuple[str, str]:
    """Return the verdict and the sentence on the imported files."""
    output = folder / "pairs.csv"
    files = [str(path) for path in kept(folder, texts)]
    call("import", program, "--base", "old", *files, "-o", str(output))
    (found,) = json.loads(call("paired", str(output), "--json")[0])["comparisons"]
    return found["verdict"], found["sentence"]


def blocks(old: Sequence[str], new: Sequence[str]) -> dict[str, str]:
    sides = (("old", old), ("new", new))
    return {
        f"{name}-{block}.log": text for name, texts in sides for block, text in enumerate(texts, 1)
    }


@pytest.mark.parametrize(
    ("failures", "verdict"),
    [
        ({"errors": 9000}, "inconclusive"),
        ({"reconnects": 9000}, "inconclusive"),
        ({"errors": 500}, "inconclusive"),
        ({"errors": 2}, "improvement"),
        ({}, "improvement"),
    ],
)
def test_ignored_errors_of_sysbench_on_one_side_refuse_a_verdict(
    tmp_path: Path, failures: dict[str, int], verdict: str
) -> None:
    old = [of_sysbench(rate=f"{500 + n}.11", seconds=10.0) for n in range(3)]
    new = [of_sysbench(rate=f"{650 + n}.12", seconds=10.0, **failures) for n in range(3)]
    found, sentence = judged(tmp_path, "sysbench", blocks(old, new))
    assert found == verdict
    assert ("ended in an error with new" in sentence) == (verdict == "inconclusive")


def test_transactions_of_pgbench_that_failed_on_one_side_refuse_a_verdict(tmp_path: Path) -> None:
    old = [of_pgbench(rate=f"{811 + n}.3") for n in range(3)]
    new = [of_pgbench(rate=f"{901 + n}.2", failed=12_000) for n in range(3)]
    found, sentence = judged(tmp_path, "pgbench", blocks(old, new))
    assert found == "inconclusive"
    assert "33 % of the transactions ended in an error with new" in sentence


def test_skipped_transactions_of_pgbench_refuse_a_verdict(tmp_path: Path) -> None:
    skipped = "number of transactions skipped: 9000 (27 %)\n"
    old = [of_pgbench(rate=f"{811 + n}.3") for n in range(3)]
    new = [of_pgbench(rate=f"{901 + n}.2") + skipped for n in range(3)]
    found, sentence = judged(tmp_path, "pgbench", blocks(old, new))
    assert found == "inconclusive"
    assert "of the scheduled transactions were skipped with new" in sentence


def test_mostly_errors_on_both_sides_refuse_a_verdict(tmp_path: Path) -> None:
    old = [of_sysbench(rate=f"{500 + n}.11", errors=90_000) for n in range(3)]
    new = [of_sysbench(rate=f"{650 + n}.12", errors=90_000) for n in range(3)]
    found, sentence = judged(tmp_path, "sysbench", blocks(old, new))
    assert (found, "too many errors" in sentence) == ("inconclusive", True)


def test_counts_are_written_and_read_again(tmp_path: Path) -> None:
    texts = {
        "old-1.log": of_sysbench(rate="650.10", errors=7),
        "new-1.log": of_sysbench(rate="651.12"),
    }
    found = text_output.read(sysbench.read, kept(tmp_path, texts))
    file = tmp_path / "pairs.csv"
    file.write_text(paired.as_csv(found.values, found.measure, base="old"), encoding="utf-8")
    lines = file.read_text("utf-8").splitlines()
    assert lines[:2] == [
        "block,treatment,value,unit,direction,operations,errors",
        "1,old,650.10,transactions/s,higher,10000,7",
    ]
    pairs = paired.read(file)
    assert pairs.work["old"]["1"].counts == (10_000, 7, None, None)
    assert pairs.unit_of_last_digit == pytest.approx(0.01)


@pytest.mark.parametrize("count", ["-1", "1.5", "many", "9" * 30])
def test_counts_that_are_none_are_refused(tmp_path: Path, count: str) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(f"block,treatment,value,errors\n1,a,2,{count}\n1,b,2,0\n", encoding="utf-8")
    _, err = call("paired", str(file), status=2)
    assert "line 2, column errors" in err
