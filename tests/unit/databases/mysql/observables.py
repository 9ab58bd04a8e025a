"""Provide the queries that the families of the mysqld line support, for tests."""

from __future__ import annotations

import tomllib
from importlib.resources import files

from millrace.databases.mysql.observable import Observable, read_observable


def observable(family: str) -> Observable:
    """Return the observations that servers of a family support."""
    text = files("millrace.databases.mysql").joinpath(f"{family}.toml").read_text("utf-8")
    return read_observable(tomllib.loads(text)["observable"])
