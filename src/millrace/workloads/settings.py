"""Read what a treatment's values say of loading, clients and replication into typed records.

The names, defaults and ranges are those of ``defaults``, or of a workload's own TOML; experiments
are checked against these before anything is read here.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

Switch = Literal["auto", "on", "off"]
LoadMethod = Literal["auto", "local", "multi_row", "single_row"]
Protocol = Literal["prepared", "text"]
Arrivals = Literal["poisson", "constant"]
CacheMode = Literal["any", "cached", "io_bound"]


class _Settings(BaseModel):
    """Some of a treatment's values; the others are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class LoadSettings(_Settings):
    """Values by which tables are loaded, until clients begin."""

    data_seed: int
    load_method: LoadMethod
    load_threads: int
    load_chunk_rows: int
    lock_tables: bool = False
    settle_s: float
    disable_idle_states: Switch


class ClientSettings(_Settings):
    """Values by which clients are driven. Times are in seconds, ``rate`` in transactions/s."""

    test: str
    clients: int
    protocol: Protocol
    rate: float
    arrivals: Arrivals
    time_s: float
    operations: int
    warmup: Literal["time", "steady"]
    warmup_s: float
    max_lateness_s: float
    threads: int
    client_cpus: str
    busy_poll: Switch
    colocate_client: Switch
    cache_mode: CacheMode
    snapshot: Literal["on", "off"]
    page_cache: Literal["auto", "cold", "warm"]
    loops: int = 1


class ReplicationSettings(_Settings):
    """Values by which a replica follows its source."""

    attach: Literal["after_load", "before_load"]
    log_format: Literal["row", "statement"]
    gtid: Switch
