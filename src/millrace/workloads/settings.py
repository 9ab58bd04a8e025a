"""Read what a treatment's values say of loading, clients and replication into typed records.

The names, defaults and ranges are those of ``defaults``, or of a workload's own TOML; experiments
are checked against these before anything is read here.
"""

from collections.abc import Sequence
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

Switch = Literal["auto", "on", "off"]


class _Settings(BaseModel):
    """Some of a treatment's values; the others are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class LoadSettings(_Settings):
    """Values by which tables are loaded, until clients begin."""

    data_seed: int
    load_method: Literal["auto", "local", "multi_row", "single_row"]
    load_threads: int
    load_chunk_rows: int
    lock_tables: bool = False
    settle_s: float
    disable_idle_states: Switch


class ClientSettings(_Settings):
    """Values by which clients are driven. Times are in seconds, ``rate`` in transactions/s."""

    test: str
    clients: int
    protocol: Literal["prepared", "text"]
    rate: float
    arrivals: Literal["poisson", "constant"]
    time_s: float
    operations: int
    warmup: Literal["time", "steady"]
    warmup_s: float
    max_lateness_s: float
    threads: int
    client_cpus: str
    busy_poll: Switch
    colocate_client: Switch
    cache_mode: Literal["any", "cached", "io_bound"]
    snapshot: Literal["on", "off"]
    page_cache: Literal["auto", "cold", "warm"]
    loops: int = 1


class ReplicationSettings(_Settings):
    """Values by which a replica follows its source."""

    attach: Literal["after_load", "before_load"]
    log_format: Literal["row", "statement"]
    gtid: Switch


_KINDS: dict[object, tuple[str, ...]] = {
    int: ("integer",), float: ("integer", "number"), bool: ("boolean",), str: ("text", "cpus"),
}  # fmt: skip


def unfit_kind(name: str, kind: str, choices: Sequence[object]) -> str | None:
    """Return why trials cannot read a factor or parameter; None where they can, or never do."""
    models = (LoadSettings, ClientSettings, ReplicationSettings)
    found = next((m.model_fields[name] for m in models if name in m.model_fields), None)
    if found is None:
        return None
    if levels := get_args(found.annotation):
        known = bool(choices) and set(choices) <= set(levels)
        return None if known else f"its choices are some of {', '.join(map(str, levels))}"
    kinds = _KINDS[found.annotation]
    return None if kind in kinds else f"it is of kind {kind}, not {' or '.join(kinds)}"
