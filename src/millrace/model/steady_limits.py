"""Define what a server's storage can hold, by which analyses check its steady state."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SteadyLimits:
    """The limits of a server's storage under its settings, and the options that move them.

    Beyond a ``dirty_share`` of dirty pages in the buffer pool, the server writes back as fast as it
    may. ``log_bytes`` is the size of the redo log's files; None where it is not known. Purge may
    lag by ``purge_cycle`` transactions before it shortens its list. The other fields name options,
    as a sentence quotes them: those that make the server write back sooner, use a smaller log,
    purge faster, keep the statistics of tables, and keep the plans of statements.
    """

    dirty_share: float = 0.9
    log_bytes: float | None = None
    purge_cycle: int = 128 * 300
    write_sooner: str = ""
    smaller_log: str = ""
    purge_faster: str = ""
    keep_statistics: str = ""
    keep_plans: str = ""
