"""Provide the queries that the families of the mysqld line support, for tests."""

import tomllib
from importlib.resources import files

from millrace.databases.mysql import query as queries
from millrace.databases.mysql.query import Observable


def observable(family: str) -> Observable:
    """Return the observations that servers of a family support."""
    common, data = (
        tomllib.loads(files("millrace.databases.mysql").joinpath(f"{name}.toml").read_text("utf-8"))
        for name in ("mysqld", family)
    )
    return queries.observable(common["observable"], data["observable"])
