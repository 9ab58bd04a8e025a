"""Provide the families MySQL and MariaDB.

Differences between families and versions are TOML data; what both share is in mysqld.toml. The
client library PyMySQL is used only here.
"""

from pathlib import Path

from millrace.databases.mysql.family import read_family

_HERE = Path(__file__).parent

FAMILIES = tuple(read_family(_HERE / f"{name}.toml") for name in ("mysql", "mariadb"))
