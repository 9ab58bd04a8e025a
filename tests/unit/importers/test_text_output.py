"""Test the import of what sysbench, pgbench, mysqlslap and HammerDB print."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.errors import UserError
from millrace.importers import hammerdb, mysqlslap, pgbench, sysbench, text_output
from millrace.importers.paired import Counts, Value
from millrace.importers.text_output import Reader
from tests.support.benchmark_outputs import (
    keep,
    kept,
    of_hammerdb,
    of_pgbench,
    of_slap,
    of_sysbench,
)
from tests.support.judged import call

OLD_PGBENCH = """\
number of transactions actually processed: 10000/10000
tps = 85.184871 (including connections establishing)
tps = 85.296346 (excluding connections establishing)
"""


PROGRAMS: dict[str, tuple[Reader, Callable[..., str]]] = {
    "sysbench": (sysbench.read, of_sysbench),
    "pgbench": (pgbench.read, of_pgbench),
    "mysqlslap": (mysqlslap.read, of_slap),
    "hammerdb": (hammerdb.read, of_hammerdb),
}


def refused(read: Reader, folder: Path, texts: dict[str, str]) -> UserError:
    with pytest.raises(UserError) as caught:
        text_output.read(read, kept(folder, texts))
    assert caught.value.hint
    return caught.value


def test_rates_of_sysbench_by_the_names_of_files(tmp_path: Path) -> None:
    files = [
        keep(tmp_path / f"{name}-{block}.log", of_sysbench(rate=f"{rate:.2f}"))
        for block, name, rate in ((1, "old", 999.65), (1, "new", 905.0), (2, "old", 1001.5))
    ]
    assert text_output.read(sysbench.read, files).values == (
        Value("1", "old", 999.65, "999.65", Counts(10_000, 0)),
        Value("1", "new", 905.0, "905.00", Counts(10_000, 0)),
        Value("2", "old", 1001.5, "1001.50", Counts(10_000, 0)),
    )


@pytest.mark.parametrize("name", ["my-5.7-01.txt", "my-5.7_1.log", "my-5.7.1"])
def test_the_last_number_of_a_name_is_the_block(tmp_path: Path, name: str) -> None:
    file = keep(tmp_path / name, of_pgbench(rate="896.967014"))
    (value,) = text_output.read(pgbench.read, [file]).values
    assert value == Value("1", "my-5.7", 896.967014, "896.967014", Counts(24360, 0))


def test_rates_of_pgbench_before_14_are_those_without_connecting(tmp_path: Path) -> None:
    file = keep(tmp_path / "old-3.log", OLD_PGBENCH)
    (value,) = text_output.read(pgbench.read, [file]).values
    assert value == Value("3", "old", 85.296346, "85.296346", Counts(10_000))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("old.log", of_sysbench(rate="1.5"), "does not give the treatment"),
        ("old-1.log", of_pgbench(rate="1.5"), "has no rate .* of sysbench"),
        ("old-1.log", of_sysbench(rate="1.5") * 2, "the output of 2 runs"),
        ("old-1.log", of_sysbench(rate="0.00"), "0.00 transactions/s, which has no ratio"),
        ("old-1.log", of_sysbench(rate="nan"), "nan transactions/s, which has no ratio"),
        ("old-1.log", of_sysbench(rate="1-2"), "1-2 transactions/s, which has no ratio"),
    ],
)
def test_what_is_not_of_sysbench_is_refused(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    with pytest.raises(UserError, match=said) as caught:
        text_output.read(sysbench.read, [keep(tmp_path / name, text)])
    assert name in caught.value.message
    assert caught.value.hint


def test_two_files_of_one_trial_are_refused(tmp_path: Path) -> None:
    text = of_sysbench(rate="1.5")
    files = [keep(tmp_path / name, text) for name in ("old-1.log", "old-01.log")]
    with pytest.raises(UserError, match="both for treatment old in block 1"):
        text_output.read(sysbench.read, files)


def test_blank_lines_without_end_are_read_once(tmp_path: Path) -> None:
    log = tmp_path / "old-1.log"
    log.write_text("\n" * 2_000_000, "utf-8")
    with pytest.raises(UserError, match=r"has no rate .* of sysbench"):
        text_output.read(sysbench.read, [log])


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_run_under_two_names_is_refused(tmp_path: Path, program: str) -> None:
    read, text_of = PROGRAMS[program]
    error = refused(read, tmp_path, {"old-1.log": text_of(), "old-2.log": text_of()})
    assert "identical contents" in error.message


@pytest.mark.parametrize(
    ("program", "changed", "said"),
    [
        ("sysbench", {"threads": 64, "rate": 2}, "threads (8 and 64)"),
        ("sysbench", {"transactions": 60_000, "seconds": 60.0}, "duration (10 s and 60 s)"),
        ("pgbench", {"clients": 64}, "number of clients (8 and 64)"),
        ("pgbench", {"scale": 1}, "scaling factor (50 and 1)"),
        ("pgbench", {"mode": "prepared"}, "query mode"),
        ("pgbench", {"duration": 60}, "duration (30 s and 60 s)"),
        ("pgbench", {"kind": "<builtin: select only>"}, "transaction type"),
        ("mysqlslap", {"clients": 8}, "number of clients (1 and 8)"),
        ("hammerdb", {"users": 8}, "virtual users (4 and 8)"),
        ("hammerdb", {"minutes": 9}, "duration (5 and 9)"),
    ],
)
def test_runs_with_different_settings_are_refused(
    tmp_path: Path, program: str, changed: dict[str, object], said: str
) -> None:
    read, text_of = PROGRAMS[program]
    error = refused(read, tmp_path, {"old-1.log": text_of(), "new-1.log": text_of(**changed)})
    for part in (said, "old-1.log", "new-1.log"):
        assert part in error.message


@pytest.mark.parametrize(
    ("base", "other", "said"),
    [
        (
            "$ sysbench oltp_read_only --tables=8 --table-size=100 --threads=8 run",
            "$ sysbench oltp_read_only --tables=8 --table_size=900 --threads=8 run",
            "--table-size (100 and 900)",
        ),
        (
            "sysbench oltp_read_only --tables=8 run",
            "sysbench /usr/share/sysbench/oltp_read_write.lua --tables=8 run",
            "test (oltp_read_only and oltp_read_write)",
        ),
    ],
)
def test_commands_of_sysbench_with_different_settings_are_refused(
    tmp_path: Path, base: str, other: str, said: str
) -> None:
    commands = {"old-1.log": base, "new-1.log": other}
    texts = {name: f"{command}\n{of_sysbench()}" for name, command in commands.items()}
    assert said in refused(sysbench.read, tmp_path, texts).message


@pytest.mark.parametrize(
    ("program", "versions", "named"),
    [
        ("sysbench", ("1.0.20", "1.1.0"), ("sysbench 1.0.20", "sysbench 1.1.0")),
        (
            "pgbench",
            ("PostgreSQL) 13.4 (Debian 13.4-1", "16.2 (Debian 16.2-1), server 15.4"),
            ("pgbench 13.4", "pgbench 16.2"),
        ),
        ("hammerdb", ("4.9", "5.0"), ("HammerDB 4.9", "HammerDB 5.0")),
    ],
)
def test_different_versions_of_the_program_are_noted(
    tmp_path: Path, program: str, versions: tuple[str, str], named: tuple[str, str]
) -> None:
    read, text_of = PROGRAMS[program]
    names = ("old-1.log", "new-1.log")
    texts = [text_of(version=version) for version in versions]
    found = text_output.read(read, kept(tmp_path, dict(zip(names, texts, strict=True))))
    assert len(found.values) == 2
    (note,) = found.notes
    for version, name in zip(named, names, strict=True):
        assert f"{version} ({tmp_path / name})" in note


@pytest.mark.parametrize(
    ("said", "version"),
    [("PostgreSQL) 13.4", "13.4"), ("17devel)", "17devel"), ("16.2, server 15.4)", "16.2")],
)
def test_the_version_of_pgbench_is_read(said: str, version: str) -> None:
    text = of_pgbench().replace("16.2)", said)
    assert pgbench.read(text).program == f"pgbench {version}"


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
        (pgbench.read, of_pgbench() + "pgbench: error: Run was aborted; results", "was aborted"),
        (pgbench.read, of_pgbench(processed="9000/10000"), "9000 of 10000 transactions"),
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
        (mysqlslap.read, of_slap() * 2),
        (mysqlslap.read, ",mixed,0.042,0.042,0.042,1,100\n,mixed,0.102,0.102,0.102,8,100\n"),
        (hammerdb.read, of_hammerdb() * 2),
    ],
)
def test_several_runs_in_a_file_are_refused(tmp_path: Path, read: Reader, text: str) -> None:
    error = refused(read, tmp_path, {"old-1.log": text})
    assert "of 2 runs" in error.message
    assert "to its own file" in (error.hint or "")


@pytest.mark.parametrize(
    ("read", "text", "value", "unit"),
    [
        (sysbench.read, "Throughput:\n    events/s (eps):   114.0161\n", 114.0161, "events/s"),
        (sysbench.read, "CPU speed:\n    events per second:   912.35\n", 912.35, "events/s"),
        (
            sysbench.read,
            "Total operations: 52 (5242880.12 per second)\n",
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
        (mysqlslap.read, of_slap(), 8.753, "s"),
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
    assert "from report 2 of 2" in found.notes[0]


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


@pytest.mark.parametrize(
    ("program", "both", "new", "verdict", "said"),
    [
        ("sysbench", {}, {"errors": 9000}, "inconclusive", "ended in an error with new"),
        ("sysbench", {}, {"reconnects": 9000}, "inconclusive", "ended in an error with new"),
        ("sysbench", {}, {"errors": 500}, "inconclusive", "ended in an error with new"),
        ("sysbench", {}, {"errors": 2}, "improvement", ""),
        ("sysbench", {}, {}, "improvement", ""),
        ("sysbench", {"errors": 90_000}, {}, "inconclusive", "too many errors"),
        (
            "pgbench",
            {},
            {"failed": 12_000},
            "inconclusive",
            "33 % of the transactions ended in an error with new",
        ),
        (
            "pgbench",
            {},
            {"failed": "0\nnumber of transactions skipped: 9000"},
            "inconclusive",
            "of the scheduled transactions were skipped with new",
        ),
    ],
)
def test_failures_refuse_a_verdict_unless_they_are_few(
    tmp_path: Path,
    program: str,
    both: dict[str, object],
    new: dict[str, object],
    verdict: str,
    said: str,
) -> None:
    _, text_of = PROGRAMS[program]
    texts = {}
    for n in range(3):
        texts[f"old-{n}.log"] = text_of(rate=f"{500 + n}.11", **both)
        texts[f"new-{n}.log"] = text_of(rate=f"{650 + n}.12", **both, **new)
    found, sentence = judged(tmp_path, program, texts)
    assert found == verdict
    assert said in sentence
    assert ("error" in sentence or "skipped" in sentence) == (verdict == "inconclusive")
