"""MariaDB: everything special about it is data, in family.toml."""

from __future__ import annotations

from pathlib import Path

from millrace.servers.families.mysqld import read_family

FAMILY = read_family(Path(__file__).with_name("family.toml"))
