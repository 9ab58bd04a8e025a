"""Provide the families MySQL and MariaDB; differences of family and version are TOML data."""

from pathlib import Path

from millrace.databases.mysql.family import read_family

_HERE = Path(__file__).parent

FAMILIES = tuple(read_family(_HERE / f"{name}.toml") for name in ("mysql", "mariadb"))
