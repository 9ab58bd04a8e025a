"""Load, check and resolve named, layered sets of options.

The format, in a shipped file or under ``[configurations.NAME]`` of an experiment:

    title = "..."
    extends = "default"            # the configuration that it extends
    file = "my.cnf"                # an option file, below what follows (option_file.py)

    [options]                      # an error where a server does not know one of them
    max_connections = 500          # text, number, or true for a bare flag (--skip-name-resolve)
    innodb_buffer_pool_size = { published = "12G", per_data_byte = 3.5, minimum = "128M" }

    [optional]                     # left out, and reported, where a server does not know them
    query_cache_size = 0

    [mariadb.options]              # only for that family; also [mariadb.optional]

    [[when]]                       # only for some versions of a family
    family = "mariadb"
    from = "10.6"                  # this version and later; below = "10.6": earlier ones
    why = "the value was removed"  # shown in reports
    options = { ... }              # also: optional
    without = ["innodb_checksum_algorithm"]
"""

from millrace.servers.configurations.check import check, check_varied_option
from millrace.servers.configurations.option_file import (
    definition_of_option_file,
    left_out_of,
    line_of,
    notes_on,
)
from millrace.servers.configurations.resolve import (
    VARIED,
    Definition,
    laid_over,
    lineage,
    load_builtin,
    resolve,
    scaled,
)

__all__ = [
    "VARIED", "Definition", "check", "check_varied_option", "definition_of_option_file",
    "laid_over", "left_out_of", "line_of", "lineage", "load_builtin", "notes_on", "resolve",
    "scaled",
]  # fmt: skip
