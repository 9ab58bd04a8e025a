"""What a configuration makes a server keep on disk, whatever the data. For estimates."""

from __future__ import annotations

from millrace import sizes
from millrace.databases.base import version_key
from millrace.model.servers import Configuration

# The largest of the servers' own redo logs: 2 x 48M, or a capacity of 100M.
DEFAULT_REDO_BYTES = 100 << 20


def redo_bytes(configuration: Configuration, *, family: str, version: str) -> int:
    """Size of InnoDB's redo log with this configuration, in bytes."""
    asked = {option.name: option.value or "" for option in configuration.options}
    if "innodb_redo_log_capacity" in asked:
        return sizes.parse(asked["innodb_redo_log_capacity"])
    if "innodb_log_file_size" not in asked:
        return DEFAULT_REDO_BYTES
    one_file = family == "mariadb" and version_key(version) >= (10, 5)
    files = 1 if one_file else int(asked.get("innodb_log_files_in_group", "2"))
    return files * sizes.parse(asked["innodb_log_file_size"])


def keeps_binary_log(configuration: Configuration, *, family: str, version: str) -> bool:
    """Whether the server writes a binary log: as asked, else on from MySQL 8.0.3."""
    for option in configuration.options:
        if option.name in ("skip_log_bin", "disable_log_bin"):
            return False
        if option.name == "log_bin":
            return (option.value or "1").lower() not in ("0", "off")
    return family == "mysql" and version_key(version) >= (8, 0, 3)
