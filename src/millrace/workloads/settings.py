"""Convert a treatment's values for loading, clients and replication into typed records.

``defaults`` or the workload's TOML define the names, defaults and ranges. Values have been checked
against these before they are converted here.
"""

from collections.abc import Sequence
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

Switch = Literal["auto", "on", "off"]


class _Settings(BaseModel):
    """A subset of a treatment's values; other values are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class LoadSettings(_Settings):
    """Settings for loading tables, until clients start."""

    data_seed: int
    load_method: Literal["auto", "local", "multi_row", "single_row"]
    load_threads: int
    load_chunk_rows: int
    lock_tables: bool = False
    settle_s: float
    disable_idle_states: Switch


class ClientSettings(_Settings):
    """Settings for clients. Times are in seconds, ``rate`` in transactions/s."""

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
    """Settings for replication."""

    attach: Literal["after_load", "before_load"]
    log_format: Literal["row", "statement"]
    gtid: Switch


_KINDS: dict[object, tuple[str, ...]] = {
    int: ("integer",), float: ("integer", "number"), bool: ("boolean",), str: ("text", "cpus"),
}  # fmt: skip


def unfit_kind(name: str, kind: str, choices: Sequence[object]) -> str | None:
    """Return why trials cannot read a factor or parameter of this kind; None if they can."""
    models = (LoadSettings, ClientSettings, ReplicationSettings)
    found = next((m.model_fields[name] for m in models if name in m.model_fields), None)
    if found is None:
        return None
    if levels := get_args(found.annotation):
        known = bool(choices) and set(choices) <= set(levels)
        return None if known else f"it needs choices among {', '.join(map(str, levels))}"
    kinds = _KINDS[found.annotation]
    return None if kind in kinds else f"its kind must be {' or '.join(kinds)}, not {kind}"
