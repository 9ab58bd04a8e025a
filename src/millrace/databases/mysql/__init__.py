"""Provide the families MySQL and MariaDB.

Differences of family and version are TOML data; what both share is in mysqld.toml. Only this
package knows the client library PyMySQL.
"""

from pathlib import Path

from millrace.databases.mysql.family import read_family

_HERE = Path(__file__).parent

FAMILIES = tuple(read_family(_HERE / f"{name}.toml") for name in ("mysql", "mariadb"))
