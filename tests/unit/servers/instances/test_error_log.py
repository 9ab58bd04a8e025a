"""Test parsing an error log's lines, in the styles of all versions."""

from pathlib import Path

import pytest

from millrace import databases
from millrace.servers.instances.error_log import ErrorLog

PATTERNS = databases.get("mysql").log

NEEDS = "InnoDB: innodb_page_size=16384 requires innodb_buffer_pool_size >= 6 MiB"
FULL = "the disk is full"


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
