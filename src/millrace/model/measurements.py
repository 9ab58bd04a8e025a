"""The one list of what trials measure: names, units, better directions and meanings.

The unit ends a name (``_s``, ``_bytes``); a name without one is a count. ``{phase}`` stands for the
name of a phase of the workload, ``{table}`` of a table, ``{code}`` for a server's error code.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Direction = Literal["higher", "lower"]

Part = Literal["before", "during", "after"]
PARTS: tuple[Part, ...] = ("before", "during", "after")
"""The parts of a drive with maintenance; each transaction belongs to one."""


@dataclass(frozen=True)
class Measurement:
    """A figure of an attempt. ``better`` is None where neither direction is."""

    name: str
    unit: str
    better: Direction | None
    meaning: str


_LIST: list[Measurement] = []


def _measured(name: str, unit: str, better: Direction | None, meaning: str) -> str:
    _LIST.append(Measurement(name, unit, better, meaning))
    return name


def _of_phase(
    ending: str, unit: str, meaning: str, *, better: Direction = "lower"
) -> Callable[[str], str]:
    """Add a measurement of any phase, and return the function from a phase to its name."""
    _measured(f"{{phase}}{ending}", unit, better, meaning)
    return lambda phase: f"{phase}{ending}"


DURATION = "_duration_s"
duration_s = _of_phase(DURATION, "s", "Time of a phase.")
TRIMMED = "_trimmed_s"
trimmed_s = _of_phase(TRIMMED, "s", "Time of the transactions or rows at their trimmed mean rate.")
warmup_s = _of_phase("_warmup_s", "s", "Time of the clients' warm-up.")
connect_s = _of_phase("_connect_s", "s", "Time until all clients had connected.")
row_wait_s = _of_phase("_row_wait_s", "s", "Time in which loading waited for rows to be made.")
warnings = _of_phase("_warnings", "", "Warnings of the server about a load.")

WITH_STALLS = "throughput_with_stalls"
"""The metric of all slices, beside the trimmed one of clients in slices."""

WITHOUT_STALLS = "throughput_without_stalls"
"""The trimmed metric, beside that of all slices of a load."""

ROWS = _measured("rows", "", "higher", "Rows loaded.")
DATA_BYTES = _measured("data_bytes", "bytes", None, "Length of the rows loaded, as sent.")

TRANSACTIONS = _measured("transactions", "", "higher", "Transactions that succeeded.")
STATEMENTS = _measured("statements", "", "higher", "Statements that succeeded.")
ROWS_READ = _measured("rows_read", "", None, "Rows that statements returned.")
ROWS_AFFECTED = _measured("rows_affected", "", None, "Rows that statements changed.")
ERRORS = _measured("errors", "", "lower", "Transactions that ended with an error.")
_ERRORS_OF = _measured("errors_{code}", "", "lower", "Transactions that ended with this error.")
UNANSWERED_S = _measured(
    "unanswered_s",
    "s",
    "lower",
    "Time from the begin of the oldest transaction that was under way when a trial was given up.",
)
BASE_TRANSACTION_S = _measured(
    "base_transaction_s",
    "s",
    None,
    "Mean time of the base's transactions in a round that was given up.",
)
RETRIES = _measured("retries", "", "lower", "Transactions begun again after an error.")
BYTES_SENT = _measured("bytes_sent", "bytes", None, "Bytes that clients sent.")
BYTES_RECEIVED = _measured("bytes_received", "bytes", None, "Bytes that clients received.")
SCHEDULED = _measured("scheduled", "", None, "Transactions that the clients' schedule had.")
LATE = _measured("late", "", "lower", "Transactions that were sent late.")
SKIPPED = _measured("skipped", "", "lower", "Transactions of the schedule that were not sent.")
MEAN_GAP_S = _measured(
    "mean_gap_s", "s", "lower", "Mean time between a client's answer and its next statement."
)
background_scheduled = _of_phase(
    "_background_scheduled", "", "Transactions due of background clients."
)
background_done = _of_phase("_background_done", "", "Those that succeeded.", better="higher")
background_late = _of_phase("_background_late", "", "Those that were sent late.")
background_longest_s = _of_phase("_background_longest_s", "s", "The longest of them.")
WARMUP_STEADY = _measured("warmup_steady", "", "higher", "1 if the warm-up ended steady, else 0.")
SLICES = _measured("slices", "", None, "Slices of whole groups in which the server had its turn.")
ROUND_S = _measured("round_s", "s", None, "Time in which the servers of a round took turns.")
PARTIAL = _measured("partial", "", "lower", "1 if clients ended before their time or number.")

RECEIVE_S = _measured(
    "receive_s", "s", "lower", "Time in which the replica copied the source's log, before applying."
)
CATCH_UP_S = _measured(
    "catch_up_s", "s", "lower", "Time from the end of the load until the replica had applied it."
)
MEAN_LAG_S = _measured(
    "mean_lag_s", "s", "lower", "Mean lag of the replica while the load ran and it caught up."
)
MAX_LAG_S = _measured("max_lag_s", "s", "lower", "The longest lag of the replica.")
REPLICATED_BYTES = _measured(
    "replicated_bytes", "bytes", None, "Length of the source's log that the replica applied."
)
REPLICATED_TRANSACTIONS = _measured(
    "replicated_transactions", "", None, "Transactions of clients that the replica applied."
)

MAINTENANCE_S = _measured(
    "maintenance_s", "s", "lower", "Time of the statements that ran beside the clients."
)
MAINTENANCE_STATEMENTS = _measured(
    "maintenance_statements", "", None, "Statements that ran beside the clients."
)
MAINTENANCE_LONGEST_S = _measured(
    "maintenance_longest_s", "s", "lower", "Time of the longest of these statements."
)
FILE_REMOVAL_S = _measured(
    "file_removal_s", "s", "lower",
    "Time of the server in system calls that remove, close or shorten files during maintenance.",
)  # fmt: skip
MAINTENANCE_OWN_S = _measured(
    "maintenance_own_s", "s", "lower", "Time of maintenance without that of removing files."
)
LOOPS_TRANSACTIONS = _measured(
    "loops_transactions", "", "higher", "Transactions that succeeded in all loops of the trial."
)
LOOPS_S = _measured("loops_s", "s", None, "Measured time of all loops.")
LOOPS_RESTARTED_COLD = _measured(
    "loops_restarted_cold", "", "lower", "Loops before which the server started again."
)

DROP_S = _measured(
    "drop_s", "s", "lower", "Time of DROP DATABASE after the run, with the login of its session."
)
DROP_REMOVAL_S = _measured(
    "drop_removal_s", "s", "lower",
    "Of it, time of the server in system calls that remove, close or shorten files.",
)  # fmt: skip
DROP_OWN_S = _measured("drop_own_s", "s", "lower", "Of it, the rest.")
PART_S = {
    part: _measured(f"{part}_s", "s", None, f"Time of the measured part {part} maintenance.")
    for part in PARTS
}
PART_TRANSACTIONS = {
    part: _measured(
        f"{part}_transactions", "", "higher", f"Transactions that succeeded {part} maintenance."
    )
    for part in PARTS
}

LONGEST_OUTAGE_S = _measured(
    "longest_outage_s", "s", "lower", "The longest time without a commit, around a full disk."
)
LONGEST_WAIT_S = _measured(
    "longest_wait_s", "s", "lower", "The longest time until a statement or a login had an answer."
)
RECOVERY_S = _measured(
    "recovery_s", "s", "lower", "Time from the return of space until a commit, without a restart."
)
ROWS_UNTIL_FULL = _measured(
    "rows_until_full", "", "higher", "Rows committed until the server had trouble with its disk."
)

LOAD_GENERATOR_USER_S = _measured(
    "load_generator_user_s", "s", "lower", "CPU time of the load generator in user mode."
)
LOAD_GENERATOR_SYSTEM_S = _measured(
    "load_generator_system_s", "s", "lower", "CPU time of the load generator in the kernel."
)
LOAD_GENERATOR_VOLUNTARY_SWITCHES = _measured(
    "load_generator_voluntary_switches", "", "lower", "Times the load generator waited."
)
LOAD_GENERATOR_INVOLUNTARY_SWITCHES = _measured(
    "load_generator_involuntary_switches", "", "lower", "Times it lost its CPU to another."
)
SERVER_USER_S = _measured("server_user_s", "s", "lower", "CPU time of the server in user mode.")
SERVER_SYSTEM_S = _measured(
    "server_system_s", "s", "lower", "CPU time of the server's kernel part."
)
SERVER_READ_BYTES = _measured(
    "server_read_bytes", "bytes", "lower", "Bytes that the server had read from the disk."
)
BUFFER_POOL_READS = _measured(
    "buffer_pool_reads", "", "lower", "Pages read because the buffer pool did not hold them."
)
BUFFER_POOL_READ_REQUESTS = _measured(
    "buffer_pool_read_requests", "", None, "Pages asked of the buffer pool."
)

INSTRUCTIONS = _measured(
    "instructions", "", "lower", "Instructions of a statement, the median of a start's repetitions."
)

SETTLED = _measured("settled", "", "higher", "1 if the server was idle before measuring, else 0.")
SETTLE_DURATION_S = _measured(
    "settle_duration_s", "s", "lower", "Time until the server was idle, or the limit."
)
SNAPSHOT_RESTORE_S = _measured("snapshot_restore_s", "s", "lower", "Time to restore the snapshot.")
SNAPSHOT_SAVED_S = _measured(
    "snapshot_saved_s", "s", None, "Time that making the snapshot's data took once."
)
SLOWDOWN_STOPPED_S = _measured(
    "slowdown_stopped_s", "s", None, "Time for which the server was stopped on purpose."
)
SLOWDOWN_WINDOW_S = _measured(
    "slowdown_window_s", "s", None, "Time in which it was stopped for so long."
)

SIZES = tuple(
    _measured(f"{of}_{how}_bytes", "bytes", "lower", f"{meaning}, {how_meaning}.")
    for of, meaning in (("data_dir", "The data directory"), ("table", "The trial's tables"))
    for how, how_meaning in (("apparent", "length of the files"), ("allocated", "without holes"))
)
DATA_DIR_APPARENT_BYTES, DATA_DIR_ALLOCATED_BYTES, TABLE_APPARENT_BYTES, TABLE_ALLOCATED_BYTES = (
    SIZES
)

TABLE_ROWS = _measured("table_rows", "", None, "Rows in the trial's tables, of that size.")
_FILES_APPARENT_BYTES = _measured(
    "{table}_files_apparent_bytes", "bytes", "lower", "A table's files, their length."
)
_FILES_ALLOCATED_BYTES = _measured(
    "{table}_files_allocated_bytes", "bytes", "lower", "A table's files, without holes."
)

NEED_NO_STEADY_STATE = frozenset(
    (
        MAINTENANCE_S, MAINTENANCE_STATEMENTS, MAINTENANCE_OWN_S, FILE_REMOVAL_S,
        DROP_S, DROP_REMOVAL_S, DROP_OWN_S, *SIZES, TABLE_ROWS,
    )
)  # fmt: skip
"""Figures of single statements and files, which compare also where clients were not steady."""

BYTES_PER_ROW = "bytes_per_row"
"""The metric of what the tables take on the disk, where an experiment has compressed ones."""

THROUGHPUT_OF_LOOPS = "throughput_of_loops"
"""The metric of all loops, beside those of the last one."""

DROP_TIME = "drop_time"
"""The metric of a timed DROP DATABASE, or of what a workload's maintenance drops."""

MEASUREMENTS = tuple(_LIST)


def errors_of(code: str) -> str:
    """Return the measurement that counts the transactions that ended with an error code."""
    return _ERRORS_OF.format(code=code)


def is_size(name: str) -> bool:
    """Return whether a measurement is of files: of the data directory, all tables, or one."""
    return name in SIZES or table_of_files(name) is not None


def table_of_files(name: str) -> str | None:
    """Return the table of a measurement of what its files take on the disk, or of their length."""
    found = re.fullmatch(r"(\w+)_files_(?:apparent|allocated)_bytes", name)
    return None if found is None else found[1]


def files_bytes(table: str) -> tuple[str, str]:
    """Return the measurements of a table's files: their length, and what they take on the disk."""
    names = _FILES_APPARENT_BYTES, _FILES_ALLOCATED_BYTES
    return names[0].format(table=table), names[1].format(table=table)


def error_code(name: str) -> str | None:
    """Return the error code of a measurement's name; None where it counts no such errors."""
    found = re.fullmatch(r"errors_([0-9A-Z]+)", name)
    return None if found is None else found[1]


def background_test(name: str) -> str | None:
    """Return the test of a measurement of what background clients did; None for any other."""
    found = re.fullmatch(r"(.+)_background_done", name)
    return None if found is None else found[1]
