"""Add the factors, parameters and metrics that a workload's phases imply.

A workload's own factor, parameter or metric replaces the default of the same name. If it has its
own primary metric, no default metric is primary.
"""

from typing import Any

from millrace.model import measurements
from millrace.model.measurements import WITH_STALLS, WITHOUT_STALLS, duration_s, trimmed_s
from millrace.model.phases import DRIVE, FILL_DISK
from millrace.workloads.schema_factors import Definition, texts_of

_LOADED = "load_tables"
TABLE_OPTIONS = "table_options"
"""The value that CREATE TABLE has after the engine; it depends on the factor ``compression``."""

_TAIL = "p99"
_SLICED = (DRIVE, "load_data")  # kinds of phases in which servers may take turns
_MAX_SEED = 9_223_372_036_854_775_807  # the largest integer of TOML

_SWITCH = ["auto", "on", "off"]

DROP_AFTER = "drop_after"
LOOPS = "loops"
"""A parameter of workloads whose clients can continue on the tables of an earlier loop."""

_CONNECTING: dict[str, Any] = {
    "transport": {"default": "socket", "choices": ["socket", "tcp"]},
    "tls": {"default": False, "choices": [False, True]},
}

COMPRESSION = "compression"
"""The factor for the compression of tables: see ``databases.table_formats``."""

UNCOMPRESSED = "none"
"""The level for tables that are not compressed."""

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
    # Connections that load; 0: one for each table, at most the number of CPUs.
    "load_threads": {"kind": "integer", "default": 0, "minimum": 0, "maximum": 1024},
    # Rows that a connection loads at a time, so that several load one table; 0: a whole table.
    "load_chunk_rows": {"kind": "integer", "default": 0, "minimum": 0},
    "settle_s": {"kind": "number", "default": 600, "minimum": 0},
    "disable_idle_states": {"kind": "text", "default": "auto", "choices": _SWITCH},
}  # fmt: skip

_DRIVING_FACTORS: dict[str, Any] = {
    "clients": {"default": 1, "free": True, "minimum": 1, "maximum": 100_000},
    "protocol": {"default": "prepared", "choices": ["prepared", "text"]},
    # Transactions per second of all clients together; 0: a closed loop.
    "rate": {"default": 0, "kind": "number", "free": True, "minimum": 0},
    "arrivals": {"default": "poisson", "choices": ["poisson", "constant"]},
}

_DRIVING: dict[str, Any] = {
    "time_s": {"kind": "number", "default": 30, "minimum": 0.1},
    # Transactions of all clients together; 0: the measured part ends by time.
    "operations": {"kind": "integer", "default": 0, "minimum": 0},
    # ``time``: for ``warmup_s`` seconds; ``steady``: until throughput is steady.
    "warmup": {"kind": "text", "default": "time", "choices": ["time", "steady"]},
    "warmup_s": {"kind": "number", "default": 5, "minimum": 0},
    # Skip a request that would start more than this after its scheduled time; 0: never.
    "max_lateness_s": {"kind": "number", "default": 0, "minimum": 0},
    # Threads of the load generator; 0: it chooses.
    "threads": {"kind": "integer", "default": 0, "minimum": 0, "maximum": 1024},
    "client_cpus": {"kind": "cpus", "default": ""},
    "busy_poll": {"kind": "text", "default": "auto", "choices": _SWITCH},
    "colocate_client": {"kind": "text", "default": "auto", "choices": _SWITCH},
    "cache_mode": {"kind": "text", "default": "any", "choices": ["any", "cached", "io_bound"]},
    "snapshot": {"kind": "text", "default": "on", "choices": ["on", "off"]},
    # Whether restored files are in the page cache when the server starts.
    "page_cache": {"kind": "text", "default": "auto", "choices": ["auto", "cold", "warm"]},
}

# For trials with a single server.
_AFTER_CLIENTS: dict[str, Any] = {
    # Time a DROP DATABASE after everything else was measured.
    DROP_AFTER: {"kind": "text", "default": "off", "choices": ["off", "on"]}
}


def _metrics(phase: str, *, with_primary: bool) -> dict[str, Any]:
    """Return the metrics of clients; ``phase`` is the name of the phase that drives them."""
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
    """Return the definition with the factors, parameters and metrics that its phases imply."""
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
            default = tests[0]  # so that only default_test is reported as wrong
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
    """Return a definition with the metric for the disk space of a row.

    The metric is not added if the workload has maintenance, which may drop tables, or fills a disk.
    """
    if any("maintenance" in each or each["kind"] == FILL_DISK for each in definition["phases"]):
        return dict(definition)
    rows = measurements.TABLE_ROWS
    metric = _quotient("disk space of a row", "bytes", ["table_allocated_bytes"], rows)
    return _with_metrics(definition, {measurements.BYTES_PER_ROW: {**metric, "direction": "lower"}})


def with_drop(definition: Definition) -> dict[str, Any]:
    """Return a definition with the metrics of a DROP DATABASE after the measured part."""
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
    """Return a definition with the throughput of all loops; other metrics are of the last loop."""
    done, loops_s = measurements.LOOPS_TRANSACTIONS, measurements.LOOPS_S
    metric = _quotient("throughput of all loops", "transactions/s", [done], loops_s)
    last = {**definition["metrics"]["throughput"], "title": "throughput of the last loop"}
    added = {measurements.THROUGHPUT_OF_LOOPS: metric, "throughput": last}
    return _with_metrics(definition, added)


def _with_metrics(definition: Definition, metrics: Definition) -> dict[str, Any]:
    return {**definition, "metrics": {**definition.get("metrics", {}), **metrics}}


def in_open_loop(definition: Definition) -> dict[str, Any]:
    """Return a workload's complete definition for clients that send at a fixed rate.

    As long as the server keeps up, throughput is the requested rate. Therefore the 99th percentile
    of response times becomes the primary metric, unless the workload has its own.
    """
    metrics = {**definition.get("metrics", {})}
    if not metrics.get("throughput", {}).get("primary") or _TAIL not in metrics:
        return dict(definition)
    of_rate = {**metrics["throughput"], "primary": False}
    tail = {**metrics[_TAIL], "primary": True}
    return _with_metrics(definition, {"throughput": of_rate, _TAIL: tail})


def in_slices(definition: Definition) -> dict[str, Any]:
    """Return a workload's complete definition for servers that take turns in slices.

    Metrics of clients use the trimmed mean of slices; throughput with stalls is added. Metrics of a
    load use its whole time, because its rare stalls (page splits, log writes) are part of the work;
    throughput without stalls is added. The CPU time of the load generator is left out, because it
    cannot be attributed to a server.
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
    """Return a definition for interleaved trials; undo ``in_slices``, except for client CPU."""
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
    """Return metrics in which the measurement ``time`` is replaced by ``other``."""
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
