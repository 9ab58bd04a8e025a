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
    """A table in which a server reports on itself."""

    name: str
    columns: Mapping[str, _Names]  # the versions' names by ours; the first that exists counts
    where: str | None = None  # with %(database)s
    instruments: str | None = None  # a prefix; rows grow while one of these is on
    consumers: tuple[str, ...] = ()  # and while each of these is, if it exists


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
    """The queries for a family's working servers; of patterns, the first match counts."""

    shared_status: str  # a regular expression: status variables that sessions have a share of
    gauges: tuple[str, ...]  # names or patterns; other status variables count
    metric_gauges: tuple[str, ...]  # likewise of engine metrics
    process_list: str  # a statement
    performance_schema: str  # a statement: is it on?
    thread_handling: str  # a statement: how do sessions get threads?
    explains: tuple[Explains, ...]  # the last that is not newer than the server
    tables: Mapping[str, Table]
    thread_kinds: tuple[KindPattern, ...]  # names in the Performance Schema
    own_thread_names: tuple[KindPattern, ...]  # that threads set themselves
    thread_functions: Mapping[str, tuple[str, ...]]  # of unnamed threads, by kind
    session_functions: frozenset[str]  # of threads that serve clients
    command_functions: frozenset[str]  # that execute one command of a session
    files: tuple[FilePattern, ...]


def observable(common: Mapping[str, Any], data: Mapping[str, Any]) -> Observable:
    """Return the queries for all servers of the line, with the additions of a family."""
    gauges = [*common["gauges"], *data["gauges"]]
    return Observable.model_validate({**common, **data, "gauges": gauges})
