"""The one list of what trials measure: names and meanings.

The unit ends a name (``_s``, ``_bytes``); a name without one is a count. ``{phase}`` stands for the
name of a phase of the workload, ``{table}`` of a table, ``{code}`` for a server's error code.
"""

import re
from collections.abc import Callable
from typing import Literal

Direction = Literal["higher", "lower"]

Part = Literal["before", "during", "after"]
PARTS: tuple[Part, ...] = ("before", "during", "after")
"""The parts of a drive with maintenance; each transaction belongs to one."""


MEANINGS: dict[str, str] = {}
"""The meaning of each measurement, by its name."""


def _measured(name: str, meaning: str) -> str:
    assert name not in MEANINGS
    MEANINGS[name] = meaning
    return name


def _of_phase(ending: str, meaning: str) -> Callable[[str], str]:
    """Add a measurement of any phase, and return the function from a phase to its name."""
    _measured(f"{{phase}}{ending}", meaning)
    return lambda phase: f"{phase}{ending}"


DURATION = "_duration_s"
duration_s = _of_phase(DURATION, "Time of a phase.")
TRIMMED = "_trimmed_s"
trimmed_s = _of_phase(TRIMMED, "Time of the transactions or rows at their trimmed mean rate.")
warmup_s = _of_phase("_warmup_s", "Time of the clients' warm-up.")
connect_s = _of_phase("_connect_s", "Time until all clients had connected.")
row_wait_s = _of_phase("_row_wait_s", "Time in which loading waited for rows to be made.")
warnings = _of_phase("_warnings", "Warnings of the server about a load.")

WITH_STALLS = "throughput_with_stalls"
"""The metric of all slices, beside the trimmed one of clients in slices."""

WITHOUT_STALLS = "throughput_without_stalls"
"""The trimmed metric, beside that of all slices of a load."""

ROWS = _measured("rows", "Rows loaded.")
DATA_BYTES = _measured("data_bytes", "Length of the rows loaded, as sent.")

TRANSACTIONS = _measured("transactions", "Transactions that succeeded.")
STATEMENTS = _measured("statements", "Statements that succeeded.")
ROWS_READ = _measured("rows_read", "Rows that statements returned.")
ROWS_AFFECTED = _measured("rows_affected", "Rows that statements changed.")
ERRORS = _measured("errors", "Transactions that ended with an error.")
_ERRORS_OF = _measured("errors_{code}", "Transactions that ended with this error.")
UNANSWERED_S = _measured(
    "unanswered_s",
    "Time from the begin of the oldest transaction that was under way when a trial was given up.",
)
BASE_TRANSACTION_S = _measured(
    "base_transaction_s", "Mean time of the base's transactions in a round that was given up."
)
RETRIES = _measured("retries", "Transactions begun again after an error.")
BYTES_SENT = _measured("bytes_sent", "Bytes that clients sent.")
BYTES_RECEIVED = _measured("bytes_received", "Bytes that clients received.")
SCHEDULED = _measured("scheduled", "Transactions that the clients' schedule had.")
LATE = _measured("late", "Transactions that were sent late.")
SKIPPED = _measured("skipped", "Transactions of the schedule that were not sent.")
MEAN_GAP_S = _measured("mean_gap_s", "Mean time between a client's answer and its next statement.")
background_scheduled = _of_phase("_background_scheduled", "Transactions due of background clients.")
background_done = _of_phase("_background_done", "Those that succeeded.")
background_late = _of_phase("_background_late", "Those that were sent late.")
background_longest_s = _of_phase("_background_longest_s", "The longest of them.")
WARMUP_STEADY = _measured("warmup_steady", "1 if the warm-up ended steady, else 0.")
SLICES = _measured("slices", "Slices of whole groups in which the server had its turn.")
ROUND_S = _measured("round_s", "Time in which the servers of a round took turns.")
PARTIAL = _measured("partial", "1 if clients ended before their time or number.")

RECEIVE_S = _measured(
    "receive_s", "Time in which the replica copied the source's log, before applying."
)
CATCH_UP_S = _measured(
    "catch_up_s", "Time from the end of the load until the replica had applied it."
)
MEAN_LAG_S = _measured("mean_lag_s", "Mean lag of the replica while the load ran and it caught up.")
MAX_LAG_S = _measured("max_lag_s", "The longest lag of the replica.")
REPLICATED_BYTES = _measured(
    "replicated_bytes", "Length of the source's log that the replica applied."
)
REPLICATED_TRANSACTIONS = _measured(
    "replicated_transactions", "Transactions of clients that the replica applied."
)

MAINTENANCE_S = _measured("maintenance_s", "Time of the statements that ran beside the clients.")
MAINTENANCE_STATEMENTS = _measured(
    "maintenance_statements", "Statements that ran beside the clients."
)
MAINTENANCE_LONGEST_S = _measured(
    "maintenance_longest_s", "Time of the longest of these statements."
)
FILE_REMOVAL_S = _measured(
    "file_removal_s",
    "Time of the server in system calls that remove, close or shorten files during maintenance.",
)
MAINTENANCE_OWN_S = _measured(
    "maintenance_own_s", "Time of maintenance without that of removing files."
)
LOOPS_TRANSACTIONS = _measured(
    "loops_transactions", "Transactions that succeeded in all loops of the trial."
)
LOOPS_S = _measured("loops_s", "Measured time of all loops.")
LOOPS_RESTARTED_COLD = _measured(
    "loops_restarted_cold", "Loops before which the server started again."
)

DROP_S = _measured("drop_s", "Time of DROP DATABASE after the run, with the login of its session.")
DROP_REMOVAL_S = _measured(
    "drop_removal_s",
    "Of it, time of the server in system calls that remove, close or shorten files.",
)
DROP_OWN_S = _measured("drop_own_s", "Of it, the rest.")
PART_S = {
    part: _measured(f"{part}_s", f"Time of the measured part {part} maintenance.") for part in PARTS
}
PART_TRANSACTIONS = {
    part: _measured(f"{part}_transactions", f"Transactions that succeeded {part} maintenance.")
    for part in PARTS
}

LONGEST_OUTAGE_S = _measured(
    "longest_outage_s", "The longest time without a commit, around a full disk."
)
LONGEST_WAIT_S = _measured(
    "longest_wait_s", "The longest time until a statement or a login had an answer."
)
RECOVERY_S = _measured(
    "recovery_s", "Time from the return of space until a commit, without a restart."
)
ROWS_UNTIL_FULL = _measured(
    "rows_until_full", "Rows committed until the server had trouble with its disk."
)

LOAD_GENERATOR_USER_S = _measured(
    "load_generator_user_s", "CPU time of the load generator in user mode."
)
LOAD_GENERATOR_SYSTEM_S = _measured(
    "load_generator_system_s", "CPU time of the load generator in the kernel."
)
LOAD_GENERATOR_VOLUNTARY_SWITCHES = _measured(
    "load_generator_voluntary_switches", "Times the load generator waited."
)
LOAD_GENERATOR_INVOLUNTARY_SWITCHES = _measured(
    "load_generator_involuntary_switches", "Times it lost its CPU to another."
)
SERVER_USER_S = _measured("server_user_s", "CPU time of the server in user mode.")
SERVER_SYSTEM_S = _measured("server_system_s", "CPU time of the server's kernel part.")
SERVER_READ_BYTES = _measured("server_read_bytes", "Bytes that the server had read from the disk.")
BUFFER_POOL_READS = _measured(
    "buffer_pool_reads", "Pages read because the buffer pool did not hold them."
)
BUFFER_POOL_READ_REQUESTS = _measured(
    "buffer_pool_read_requests", "Pages asked of the buffer pool."
)

INSTRUCTIONS = _measured(
    "instructions", "Instructions of a statement, the median of a start's repetitions."
)

SETTLED = _measured("settled", "1 if the server was idle before measuring, else 0.")
SETTLE_DURATION_S = _measured("settle_duration_s", "Time until the server was idle, or the limit.")
SNAPSHOT_RESTORE_S = _measured("snapshot_restore_s", "Time to restore the snapshot.")
SNAPSHOT_SAVED_S = _measured("snapshot_saved_s", "Time that making the snapshot's data took once.")
SLOWDOWN_STOPPED_S = _measured(
    "slowdown_stopped_s", "Time for which the server was stopped on purpose."
)
SLOWDOWN_WINDOW_S = _measured("slowdown_window_s", "Time in which it was stopped for so long.")

SIZES = tuple(
    _measured(f"{of}_{how}_bytes", f"{meaning}, {how_meaning}.")
    for of, meaning in (("data_dir", "The data directory"), ("table", "The trial's tables"))
    for how, how_meaning in (("apparent", "length of the files"), ("allocated", "without holes"))
)
DATA_DIR_APPARENT_BYTES, DATA_DIR_ALLOCATED_BYTES, TABLE_APPARENT_BYTES, TABLE_ALLOCATED_BYTES = (
    SIZES
)

TABLE_ROWS = _measured("table_rows", "Rows in the trial's tables, of that size.")
_FILES_APPARENT_BYTES = _measured("{table}_files_apparent_bytes", "A table's files, their length.")
_FILES_ALLOCATED_BYTES = _measured(
    "{table}_files_allocated_bytes", "A table's files, without holes."
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
