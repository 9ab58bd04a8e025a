"""Define the limits of a server's storage, with which analyses check its steady state."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SteadyLimits:
    """The limits of a server's storage with its settings, and the options that change them.

    ``dirty_share``: the fraction of dirty pages in the buffer pool above which the server flushes
    as fast as it can.
    ``log_bytes``: the size of the redo log files; None if unknown.
    ``purge_cycle``: the number of transactions by which purge may lag before it trims its list.

    The other fields are options, as quoted in sentences, that make the server flush sooner, use a
    smaller log, purge faster, keep the statistics of tables, or keep the plans of statements.
    """

    dirty_share: float = 0.9
    log_bytes: float | None = None
    purge_cycle: int = 128 * 300
    write_sooner: str = ""
    smaller_log: str = ""
    purge_faster: str = ""
    keep_statistics: str = ""
    keep_plans: str = ""
