"""Test parsing an error log's lines, in the styles of all versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace import databases
from millrace.servers.instances import error_log

PATTERNS = databases.get("mysql").log

NEEDS = "InnoDB: innodb_page_size=16384 requires innodb_buffer_pool_size >= 6 MiB"
FULL = "the disk is full"


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
    assert error_log.words(line, PATTERNS) == words


def test_the_first_error_is_told_and_notes_are_none(tmp_path: Path) -> None:
    log = tmp_path / "error.log"
    log.write_text(
        "2026-11-20 15:00:00 1 [Note] /opt/mysqld: ready, no Fatal error\n"
        "2026-11-20T15:00:00Z 0 [System] [MY-010910] [Server] /opt/mysqld: Shutdown complete\n"
        "/opt/mysqld: Table 'mysql.plugin' doesn't exist\n"
        f"2026-11-20T15:00:00.1Z 0 [ERROR] {NEEDS}\n"
        "2026-11-20T15:00:00.2Z 0 [ERROR] Aborting\n",
        encoding="utf-8",
    )
    assert error_log.first_error(log, 0, PATTERNS) == NEEDS
    assert [error_log.words(line, PATTERNS) for line in error_log.errors(log, 0, PATTERNS)] == [
        "/opt/mysqld: Table 'mysql.plugin' doesn't exist",
        NEEDS,
        "Aborting",
    ]
    assert error_log.first_error(log, log.stat().st_size, PATTERNS) is None


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
def test_a_full_disk_is_told_in_every_wording(
    tmp_path: Path, line: str, meaning: str | None
) -> None:
    log = tmp_path / "error.log"
    log.write_text(f"[Note] before\n{line}\n", encoding="utf-8")
    assert error_log.meaning(log, 0, PATTERNS, port=7, socket=Path("/s")) == meaning
    said = error_log.meaning_and_words(line, PATTERNS, port=7, socket=Path("/s"))
    assert said.partition(";")[0] == (meaning or error_log.words(line, PATTERNS))


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
    log = tmp_path / "error.log"
    log.write_text(line + "\n", encoding="utf-8")
    assert all(len(found) <= 2048 for found in error_log.errors(log, 0, PATTERNS))
    assert len(error_log.words(line, PATTERNS)) <= len(line)
    error_log.first_error(log, 0, PATTERNS)
    error_log.meaning(log, 0, PATTERNS, port=1, socket=tmp_path)
    found, end = error_log.trouble(log, 0, PATTERNS)
    assert end == len(line) + 1
    assert found is None
