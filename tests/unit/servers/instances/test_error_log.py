import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases
from millrace.servers.instances.error_log import ErrorLog

PATTERNS = databases.get("mysql").log

NEEDS = "InnoDB: innodb_page_size=16384 requires innodb_buffer_pool_size >= 6 MiB"
FULL = "the disk is full"


QUIET = (
    "2026-11-20 15:00:00 1 [Note] InnoDB: Using Linux native AIO\n"
    "2026-11-20T15:00:00Z 0 [Warning] [MY-010075] No existing UUID has been found\n"
    "2026-11-20 15:00:00 1 [ERROR] Incorrect definition of table mysql.event\n"
    "/opt/x/mysqld: ready for connections.\n"
)

TROUBLE = [
    "2026-11-20 [ERROR] mysqld: Disk is full writing './mysql/big.MYD' (Errcode: 28)",
    "2026-11-20 0 [ERROR] InnoDB: Operating system error number 28 in a file operation.",
    "15:00:00 UTC - mysqld got signal 11 ;",
    "2026-11-20 [ERROR] [FATAL] InnoDB: Tablespace id is 5 in the data dictionary",
    "InnoDB: Assertion failure in thread 140 in file fil0fil.cc line 5",
]


def log_at(path: Path) -> ErrorLog:
    return ErrorLog(path, PATTERNS, port=7, socket=Path("/s"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"2026-11-20T15:00:00.123456Z 0 [ERROR] {NEEDS}", NEEDS),
        (f"2026-11-20 15:00:00 140234 [ERROR] {NEEDS}", NEEDS),
        (f"261120  9:00:00 [ERROR] {NEEDS}", NEEDS),
        (
            "2026-11-20T15:00:00+01:00 0 [ERROR] [MY-012345] [InnoDB] Cannot open",
            "[MY-012345] [InnoDB] Cannot open",
        ),
        ("2026-11-20  9:00:00 0 [Warning] mysqld: Disk is full", "mysqld: Disk is full"),
        ("2026-11-20 15:00:00 7f3c1a InnoDB: Error: no space", "InnoDB: Error: no space"),
        ("261120 15:00:00  InnoDB: add a file", "InnoDB: add a file"),
        ("261120 15:00:00 add a file", "add a file"),
        ("15:00:00 UTC - mysqld got signal 11 ;", "mysqld got signal 11 ;"),
        ("mysqld: unknown option '--x'", "mysqld: unknown option '--x'"),
    ],
)
def test_words_are_without_date_time_thread_and_kind(line: str, words: str) -> None:
    assert log_at(Path("/none")).words(line) == words


def test_first_error_is_returned_and_notes_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "error.log"
    file.write_text(
        "2026-11-20 15:00:00 1 [Note] /opt/mysqld: ready, no Fatal error\n"
        "2026-11-20T15:00:00Z 0 [System] [MY-010910] [Server] /opt/mysqld: Shutdown complete\n"
        "/opt/mysqld: Table 'mysql.plugin' doesn't exist\n"
        f"2026-11-20T15:00:00.1Z 0 [ERROR] {NEEDS}\n"
        "2026-11-20T15:00:00.2Z 0 [ERROR] Aborting\n",
        encoding="utf-8",
    )
    log = log_at(file)
    assert log.first_error() == NEEDS
    assert [log.words(line) for line in log.errors()] == [
        "/opt/mysqld: Table 'mysql.plugin' doesn't exist",
        NEEDS,
        "Aborting",
    ]
    log.begin_phase()
    assert log.first_error() is None


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("[ERROR] InnoDB: Operating system error number 28 in a file operation.", FULL),
        ("[Warning] Disk is full writing './t.MYD' (Errcode: 28 - No space left on device)", FULL),
        ("InnoDB: Check that the disk is not full or a disk quota exceeded.", FULL),
        ("InnoDB: Operating system error number 0. Check also that the disk is not full", FULL),
        ("InnoDB: Operating system error number 22. Check that the disk is not full", None),
        ("InnoDB: Operating system error number 280.", None),
    ],
)
def test_full_disk_is_recognised_in_every_wording(
    tmp_path: Path, line: str, meaning: str | None
) -> None:
    file = tmp_path / "error.log"
    file.write_text(f"[Note] before\n{line}\n", encoding="utf-8")
    log = log_at(file)
    assert log.meaning() == meaning
    assert log.describe(line).partition(";")[0] == (meaning or log.words(line))


@pytest.mark.parametrize(
    "line",
    [
        "12:00:00 " + "1" * 250_000 + "z disk is full",
        "[ERROR] " + "bind on tcp/ip port" * 13_000,
        "12:00:00 [ERROR] " + "error number 1 check " * 12_000,
    ],
)
def test_a_line_without_end_is_cut_before_anything_looks_for_words(
    tmp_path: Path, line: str
) -> None:
    file = tmp_path / "error.log"
    file.write_text(line + "\n", encoding="utf-8")
    log = log_at(file)
    assert all(len(found) <= 2048 for found in log.errors())
    assert len(log.words(line)) <= len(line)
    log.first_error()
    log.meaning()
    assert log.new_trouble() is None
    assert log.searched_to == len(line) + 1


@pytest.mark.parametrize("line", TROUBLE)
def test_trouble_is_found_once(tmp_path: Path, line: str) -> None:
    file = tmp_path / "error.log"
    file.write_text(QUIET, encoding="utf-8")
    log = log_at(file)
    assert log.new_trouble() is None
    assert log.searched_to == file.stat().st_size
    with file.open("a", encoding="utf-8") as writer:
        writer.write(line[:20])
    assert log.new_trouble() is None, "half a line is not judged"
    with file.open("a", encoding="utf-8") as writer:
        writer.write(line[20:] + "\n")
    assert log.new_trouble() == line
    assert log.new_trouble() is None
    assert log.searched_to == file.stat().st_size


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_a_log_that_grows_is_read_to_its_last_complete_line(pieces: list[bytes]) -> None:
    file = Path(os.environ["MILLRACE_STATE"]).parent / "growing.log"
    file.unlink(missing_ok=True)
    log = log_at(file)
    for piece in pieces:
        with file.open("ab") as writer:
            writer.write(piece)
        log.new_trouble()
        assert log.searched_to == file.read_bytes().rfind(b"\n") + 1
    file.unlink(missing_ok=True)


def test_no_log_is_no_trouble(tmp_path: Path) -> None:
    log = log_at(tmp_path / "error.log")
    log.begin_phase()
    assert (log.new_trouble(), log.searched_to) == (None, 0)
    assert log.tail(5) == ""
    assert log.errors() == []


def test_errors_are_those_of_the_phase(tmp_path: Path) -> None:
    file = tmp_path / "error.log"
    file.write_text(QUIET, encoding="utf-8")
    log = log_at(file)
    log.begin_phase()
    with file.open("a", encoding="utf-8") as writer:
        writer.write("[Note] fine\n[ERROR] unknown variable 'x=1'\n[ERROR] Aborting\n")
    assert log.errors() == ["[ERROR] unknown variable 'x=1'", "[ERROR] Aborting"]
    assert log.tail(2) == "[ERROR] unknown variable 'x=1'\n[ERROR] Aborting"


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        (
            "[ERROR] Can't start server: Bind on TCP/IP port: Address already in use",
            "the port 7 is taken by another process",
        ),
        (
            "[ERROR] Do you already have another mysqld server running on port: 7 ?",
            "the port 7 is taken by another process",
        ),
        (
            "[ERROR] Another process with pid 5 is using unix socket file.",
            "the socket /s is taken by another process",
        ),
        ("[ERROR] Error writing file './x' (Errcode: 28)", "the disk is full"),
        ("[ERROR] unknown option '--x'", None),
    ],
)
def test_what_an_error_means(tmp_path: Path, line: str, meaning: str | None) -> None:
    file = tmp_path / "error.log"
    file.write_text(line + "\n", encoding="utf-8")
    assert log_at(file).meaning() == meaning
