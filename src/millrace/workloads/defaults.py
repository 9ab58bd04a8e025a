"""Add the factors, parameters and metrics that a workload's phases imply when it is loaded.

A workload keeps its own of the same name, and its own primary metric is the only one.
"""

from typing import Any

from millrace.model import measurements
from millrace.model.measurements import WITH_STALLS, WITHOUT_STALLS, duration_s, trimmed_s
from millrace.model.phases import DRIVE, FILL_DISK
from millrace.workloads.schema_factors import Definition, texts_of

_LOADED = "load_tables"
TABLE_OPTIONS = "table_options"
"""The name of what CREATE TABLE has after the engine, by the factor ``compression``."""

_TAIL = "p99"
_SLICED = (DRIVE, "load_data")  # kinds of phases in which servers may take turns
_MAX_SEED = 9_223_372_036_854_775_807  # the largest integer of TOML

_SWITCH = ["auto", "on", "off"]

DROP_AFTER = "drop_after"
LOOPS = "loops"
"""A parameter of workloads whose clients can go on where those of an earlier loop ended."""

_CONNECTING: dict[str, Any] = {
    "transport": {"default": "socket", "choices": ["socket", "tcp"]},
    "tls": {"default": False, "choices": [False, True]},
}

COMPRESSION = "compression"
"""The factor whose levels are how tables are compressed: see ``databases.table_formats``."""

UNCOMPRESSED = "none"
"""The level of tables that are not compressed."""

_COMPRESSION: dict[str, Any] = {
    COMPRESSION: {
        "default": UNCOMPRESSED,
        "choices": [
            UNCOMPRESSED, "row", "row-1k", "row-2k", "row-4k", "row-8k", "page-zlib", "page-lz4",
        ],
    },
}  # fmt: skip

_LOADING: dict[str, Any] = {
    "data_seed": {"kind": "integer", "default": 1, "minimum": 0, "maximum": _MAX_SEED},
    "load_method": {
        "kind": "text", "default": "auto", "choices": ["auto", "local", "multi_row", "single_row"],
    },
    # Connections that load; 0 is one for each table, up to the number of the host's CPUs.
    "load_threads": {"kind": "integer", "default": 0, "minimum": 0, "maximum": 1024},
    # Rows that a connection fills at a time, so that several fill one table; 0: a table at a time.
    "load_chunk_rows": {"kind": "integer", "default": 0, "minimum": 0},
    "settle_s": {"kind": "number", "default": 600, "minimum": 0},
    "disable_idle_states": {"kind": "text", "default": "auto", "choices": _SWITCH},
}  # fmt: skip

_DRIVING_FACTORS: dict[str, Any] = {
    "clients": {"default": 1, "free": True, "minimum": 1, "maximum": 100_000},
    "protocol": {"default": "prepared", "choices": ["prepared", "text"]},
    # Transactions a second of all clients together; 0 is a closed loop.
    "rate": {"default": 0, "kind": "number", "free": True, "minimum": 0},
    "arrivals": {"default": "poisson", "choices": ["poisson", "constant"]},
}

_DRIVING: dict[str, Any] = {
    "time_s": {"kind": "number", "default": 30, "minimum": 0.1},
    # Transactions of all clients together; 0 ends by time.
    "operations": {"kind": "integer", "default": 0, "minimum": 0},
    # By time, for ``warmup_s`` seconds, or until throughput is steady.
    "warmup": {"kind": "text", "default": "time", "choices": ["time", "steady"]},
    "warmup_s": {"kind": "number", "default": 5, "minimum": 0},
    # A request that would start later than this after its time is skipped; 0: never.
    "max_lateness_s": {"kind": "number", "default": 0, "minimum": 0},
    # Threads of the load generator; 0 lets it choose.
    "threads": {"kind": "integer", "default": 0, "minimum": 0, "maximum": 1024},
    "client_cpus": {"kind": "cpus", "default": ""},
    "busy_poll": {"kind": "text", "default": "auto", "choices": _SWITCH},
    "colocate_client": {"kind": "text", "default": "auto", "choices": _SWITCH},
    "cache_mode": {"kind": "text", "default": "any", "choices": ["any", "cached", "io_bound"]},
    "snapshot": {"kind": "text", "default": "on", "choices": ["on", "off"]},
    # The place of a restored data directory when its server starts: the disk, or also memory, for
    # servers that read through the page cache.
    "page_cache": {"kind": "text", "default": "auto", "choices": ["auto", "cold", "warm"]},
}

# Of trials with one server, which clients alone change.
_AFTER_CLIENTS: dict[str, Any] = {
    # DROP DATABASE, timed, when all else is measured.
    DROP_AFTER: {"kind": "text", "default": "off", "choices": ["off", "on"]},
}


def _metrics(phase: str, *, with_primary: bool) -> dict[str, Any]:
    """Return the metrics of driven clients; ``phase`` is the one that drives them."""
    time_s = duration_s(phase)
    of_client = ["load_generator_user_s", "load_generator_system_s"]
    return {
        "throughput": {
            **_quotient("throughput", "transactions/s", ["transactions"], time_s),
            "primary": with_primary,
        },
        "qps": _quotient("statements per second", "statements/s", ["statements"], time_s),
        "p50": _percentile("median response time", 50),
        "p95": _percentile("response time, 95th percentile", 95),
        _TAIL: _percentile("response time, 99th percentile", 99),
        "server_cpu": _quotient(
            "server CPU per transaction", "s", ["server_user_s", "server_system_s"], "transactions"
        ),
        "client_cpu": _quotient("client CPU per transaction", "s", of_client, "transactions"),
    }


def _quotient(title: str, unit: str, numerator: list[str], denominator: str) -> dict[str, Any]:
    return {
        "title": title,
        "unit": unit,
        "direction": "lower" if unit == "s" else "higher",
        "numerator": numerator,
        "denominator": [denominator],
    }


def _percentile(title: str, percentile: int) -> dict[str, Any]:
    return {
        "title": title,
        "unit": "s",
        "direction": "lower",
        "percentile": percentile,
        "of": "transaction",
        "time": "response",
    }


def completed(definition: Definition) -> dict[str, Any]:
    """Return the definition, completed with what its phases imply."""
    kinds = [phase.get("kind") for phase in definition.get("phases", ())]
    factors: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    own_metrics = definition.get("metrics", {})
    if _LOADED in kinds or DRIVE in kinds:
        factors |= _CONNECTING
        parameters |= _LOADING
    if any(f"{{{TABLE_OPTIONS}}}" in text for text in texts_of(definition)):
        factors |= _COMPRESSION
    if DRIVE in kinds:
        tests = list(definition.get("tests", {}))
        default = definition.get("default_test")
        if tests and default not in tests:
            default = tests[0]  # the mistake is that of default_test alone
        factors |= {"test": {"default": default, "choices": tests}}
        factors |= _DRIVING_FACTORS
        parameters |= _DRIVING
        if isinstance(roles := definition.get("roles"), list) and len(roles) == 1:
            parameters |= _AFTER_CLIENTS
        drives = next(p.get("name") for p in definition["phases"] if p.get("kind") == DRIVE)
        own_primary = any(each.get("primary") for each in own_metrics.values())
        metrics = _metrics(str(drives), with_primary=not own_primary)
    if not factors:
        return dict(definition)
    own_factors, own_parameters = definition.get("factors", {}), definition.get("parameters", {})
    added = {name: each for name, each in factors.items() if name not in own_parameters}
    shared = {name: each for name, each in parameters.items() if name not in own_factors}
    return {
        **definition,
        "factors": added | own_factors,
        "parameters": shared | own_parameters,
        "metrics": metrics | own_metrics,
    }


def with_sizes(definition: Definition) -> dict[str, Any]:
    """Return a definition with the metric of what the tables take on the disk.

    Maintenance may drop tables before they are measured, and a full disk leaves them as they are
    then: it is left out there.
    """
    if any("maintenance" in each or each["kind"] == FILL_DISK for each in definition["phases"]):
        return dict(definition)
    rows = measurements.TABLE_ROWS
    metric = _quotient("disk space of a row", "bytes", ["table_allocated_bytes"], rows)
    return _with_metrics(definition, {measurements.BYTES_PER_ROW: {**metric, "direction": "lower"}})


def with_drop(definition: Definition) -> dict[str, Any]:
    """Return a definition with the metrics of DROP DATABASE after the run."""
    titles = {
        measurements.DROP_TIME: ("time of DROP DATABASE", measurements.DROP_S),
        "drop_file_removal": ("DROP DATABASE: removing files", measurements.DROP_REMOVAL_S),
        "drop_own_work": ("DROP DATABASE: the server’s own work", measurements.DROP_OWN_S),
    }
    metrics = {
        name: {"title": title, "unit": "s", "direction": "lower", "numerator": [measured]}
        for name, (title, measured) in titles.items()
    }
    return _with_metrics(definition, metrics)


def with_loops(definition: Definition) -> dict[str, Any]:
    """Return a definition with the throughput of all loops; the other metrics are of the last."""
    done, loops_s = measurements.LOOPS_TRANSACTIONS, measurements.LOOPS_S
    metric = _quotient("throughput of all loops", "transactions/s", [done], loops_s)
    last = {**definition["metrics"]["throughput"], "title": "throughput of the last loop"}
    added = {measurements.THROUGHPUT_OF_LOOPS: metric, "throughput": last}
    return _with_metrics(definition, added)


def _with_metrics(definition: Definition, metrics: Definition) -> dict[str, Any]:
    return {**definition, "metrics": {**definition.get("metrics", {}), **metrics}}


def in_open_loop(definition: Definition) -> dict[str, Any]:
    """Return a workload's complete definition for clients with a rate of their own.

    Their throughput is the rate that was asked for as long as a server keeps up, so that latency is
    the result: the 99th percentile of response times is the primary metric. A primary metric of the
    workload's own stays.
    """
    metrics = {**definition.get("metrics", {})}
    if not metrics.get("throughput", {}).get("primary") or _TAIL not in metrics:
        return dict(definition)
    of_rate = {**metrics["throughput"], "primary": False}
    tail = {**metrics[_TAIL], "primary": True}
    return _with_metrics(definition, {"throughput": of_rate, _TAIL: tail})


def in_slices(definition: Definition) -> dict[str, Any]:
    """Return a workload's complete definition for servers that take turns in slices.

    Clients' metrics are by the trimmed mean of slices, beside which the plain throughput stands. A
    load's are by its whole time, beside which the trimmed one stands: a page that is split or a log
    that is written is rare and part of the work, and clients wait for few of them in a minute. The
    load generator's CPU time belongs to no server.
    """
    sliced = _sliced_phase(definition)
    metrics = {**definition.get("metrics", {})}
    if sliced is None or "throughput" not in metrics:
        return dict(definition)
    metrics.pop("client_cpu", None)
    plain = {**metrics["throughput"], "primary": False}
    if sliced["kind"] == DRIVE:
        metrics = _by_time(metrics, duration_s(sliced["name"]), trimmed_s(sliced["name"]))
        metrics[WITH_STALLS] = {**plain, "title": f"{plain['title']} with stalls"}
    else:
        named = {WITHOUT_STALLS: {**plain, "title": f"{plain['title']} without stalls"}}
        metrics |= _by_time(named, duration_s(sliced["name"]), trimmed_s(sliced["name"]))
    return {**definition, "metrics": metrics}


def interleaved(definition: Definition) -> dict[str, Any]:
    """Return a definition, maybe of slices, for interleaved trials, without the client's CPU."""
    metrics = {**definition.get("metrics", {})}
    sliced = _sliced_phase(definition)
    if sliced is None or not metrics.keys() & {WITH_STALLS, WITHOUT_STALLS}:
        return dict(definition)
    metrics.pop(WITHOUT_STALLS, None)
    if metrics.pop(WITH_STALLS, None) is not None:
        metrics = _by_time(metrics, trimmed_s(sliced["name"]), duration_s(sliced["name"]))
    return {**definition, "metrics": metrics}


def _sliced_phase(definition: Definition) -> Definition | None:
    return next((each for each in definition["phases"] if each["kind"] in _SLICED), None)


def _by_time(metrics: Definition, time: str, other: str) -> dict[str, Any]:
    """Return metrics with another measurement in the place of a time."""
    return {
        name: {
            **metric,
            **{
                part: [other if each == time else each for each in metric[part]]
                for part in ("numerator", "denominator")
                if part in metric
            },
        }
        for name, metric in metrics.items()
    }
