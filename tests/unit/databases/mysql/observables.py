"""What the families of the mysqld line can be asked, for tests."""

from __future__ import annotations

import tomllib
from importlib.resources import files

from millrace.databases.mysql.observable import Observable, read_observable


def observable(family: str) -> Observable:
    """Return what servers of a family can be asked about themselves."""
    text = files("millrace.databases.mysql").joinpath(f"{family}.toml").read_text("utf-8")
    return read_observable(tomllib.loads(text)["observable"])
