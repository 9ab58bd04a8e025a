"""Define the queries, in mysqld.toml, by which servers of the mysqld line are observed."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

_Names = Annotated[
    tuple[str, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)
]


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Table(_Data):
    """A table in which a server reports on itself.

    ``columns`` map millrace's names to the versions' names of that column: the first that a server
    has counts, and a column that it lacks is left out. ``where`` is a condition, with
    ``%(database)s`` for the observed database. The rows grow only while at least one instrument
    whose name begins with ``instruments`` is on, and each of ``consumers`` that the server has.
    """

    name: str
    columns: Mapping[str, _Names]
    where: str | None = None
    instruments: str | None = None
    consumers: tuple[str, ...] = ()


class Explains(_Data):
    """The ``form`` in which versions from ``since`` explain statements beginning with ``verbs``."""

    since: str
    form: str
    verbs: frozenset[str]


class KindPattern(_Data):
    """A kind of threads or files, by a pattern of their names."""

    kind: str
    pattern: re.Pattern[str]


class FilePattern(KindPattern):
    """A kind of files; commits wait for a ``commit_log``."""

    commit_log: bool = False


class Observable(_Data):
    """The queries for a family's working servers.

    ``status``, ``engine_status`` and ``process_list`` are statements. ``performance_schema`` is one
    whose only value says whether the Performance Schema is on, ``thread_handling`` one whose only
    value says how sessions get threads. Of ``explains`` the last entry counts that is not newer
    than the server. ``gauges`` and ``metric_gauges`` are names or shell patterns of status
    variables and of engine metrics that report a current state; all others count. The first match
    counts in ``thread_kinds`` (names in the Performance Schema), ``own_thread_names`` (names that
    threads set themselves) and ``files``. ``thread_functions`` are the functions that unnamed
    threads run, by kind; ``session_functions`` those of threads that serve clients.
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
    thread_kinds: tuple[KindPattern, ...]
    own_thread_names: tuple[KindPattern, ...]
    thread_functions: Mapping[str, tuple[str, ...]]
    session_functions: frozenset[str]
    files: tuple[FilePattern, ...]


def observable(common: Mapping[str, Any], data: Mapping[str, Any]) -> Observable:
    """Return the queries for all servers of the line, with the additions of a family."""
    gauges = [*common["gauges"], *data["gauges"]]
    return Observable.model_validate({**common, **data, "gauges": gauges})
