"""Read from mysqld.toml the queries by which servers of the mysqld line are observed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Data = Mapping[str, Any]

_COMMON = Path(__file__).with_name("mysqld.toml")


@dataclass(frozen=True)
class Table:
    """A table in which a server reports on itself.

    ``columns`` map millrace's names to the versions' names of that column: the first that a server
    has counts, and a column that it lacks is left out. ``where`` is a condition, with
    ``%(database)s`` for the observed database. The rows grow only while at least one instrument
    whose name begins with ``instruments`` is on, and each of ``consumers`` that the server has.
    """

    name: str
    columns: Mapping[str, tuple[str, ...]]
    where: str | None = None
    instruments: str | None = None
    consumers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explains:
    """The syntax in which some versions explain statements.

    Versions from ``since`` explain ``{sql}`` by ``form``, if its first word is one of ``verbs``.
    """

    since: str
    form: str
    verbs: frozenset[str]


@dataclass(frozen=True)
class Observable:
    """The queries for a family's working servers.

    ``status``, ``engine_status`` and ``process_list`` are statements. ``performance_schema`` is one
    whose only value says whether the Performance Schema is on, ``thread_handling`` one whose only
    value says how sessions get threads. Of ``explains`` the last entry counts that is not newer
    than the server. ``gauges`` and ``metric_gauges`` are names or shell patterns of status
    variables and of engine metrics that report a current state; all others count. ``thread_kinds``
    are pairs of a kind and a pattern for a thread's name, and the first match counts.
    ``thread_functions`` map the functions that unnamed threads run to their kinds.
    """

    status: str
    gauges: tuple[str, ...]
    metric_gauges: tuple[str, ...]
    engine_status: str
    process_list: str
    performance_schema: str
    thread_handling: str
    explains: tuple[Explains, ...]
    tables: Mapping[str, Table]
    thread_kinds: tuple[tuple[str, re.Pattern[str]], ...]
    thread_functions: Mapping[str, str]


def read_observable(data: Data) -> Observable:
    """Return the queries for all servers of the line, with the additions of a family."""
    common = tomllib.loads(_COMMON.read_text(encoding="utf-8"))["observable"]
    return Observable(
        status=common["status"],
        gauges=(*common["gauges"], *data["gauges"]),
        metric_gauges=tuple(common["metric_gauges"]),
        engine_status=common["engine_status"],
        process_list=common["process_list"],
        performance_schema=common["performance_schema"],
        thread_handling=common["thread_handling"],
        explains=tuple(
            Explains(entry["since"], entry["form"], frozenset(entry["verbs"]))
            for entry in data["explains"]
        ),
        tables={name: _table(table) for name, table in common["tables"].items()},
        thread_kinds=tuple(
            (entry["kind"], re.compile(entry["pattern"])) for entry in common["thread_kinds"]
        ),
        thread_functions={
            name: kind for kind, names in common["thread_functions"].items() for name in names
        },
    )


def _table(data: Data) -> Table:
    return Table(
        name=data["name"],
        columns={
            ours: (theirs,) if isinstance(theirs, str) else tuple(theirs)
            for ours, theirs in data["columns"].items()
        },
        where=data.get("where"),
        instruments=data.get("instruments"),
        consumers=tuple(data.get("consumers", ())),
    )
