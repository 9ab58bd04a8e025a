"""The cases that ``benchmarks/attribution --cases`` measures: differences whose cause is known.

A case compares two servers, or two values of one option, as an experiment of its own. Its workload
is built in, or a file of ``benchmarks/known_causes``.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from string import Template

from millrace.analysis.explain.causes.finders import QUEUE
from millrace.analysis.explain.causes.model import LikelyCause

WORKLOADS = Path(__file__).parent / "known_causes"
"""The workloads of cases, as files."""

CPU_TIME = "cpu"
"""The kind of cause where no setting or plan makes the difference, only CPU time."""


@dataclass(frozen=True)
class CaseSize:
    """The number and length of a case's trials."""

    blocks: int
    time_s: float
    warmup_s: float


@dataclass(frozen=True)
class Case:
    """A comparison with a known cause.

    ``a`` and ``b`` are servers, or values of ``option`` on ``server``. ``expected`` holds the names
    of settings and kinds of causes any of which is right; with ``CPU_TIME``, naming no cause is
    right too. Empty, the sides are alike, and only naming none is right. ``options`` and
    ``optional`` are lines of the configuration; ``optional`` ones are left out where a server lacks
    them.
    """

    name: str
    title: str
    workload: str
    a: str
    b: str
    expected: frozenset[str]
    test: str = ""
    option: str = ""
    server: str = ""
    clients: int = 1
    factors: str = ""
    parameters: str = 'cache_mode = "cached"'
    configuration: str = "default"
    options: str = ""
    optional: str = ""

    @property
    def sides(self) -> tuple[str, str]:
        """Return what is compared, in words."""
        if not self.option:
            return self.a, self.b
        name = self.option.removeprefix("options.")
        return f"{self.server}, {name} {self.a}", self.b

    def write(self, directory: Path, size: CaseSize) -> Path:
        """Write the experiment, with its workload next to it; return the experiment's file."""
        own = WORKLOADS / f"{self.workload}.toml"
        if own.exists():
            shutil.copy(own, directory / own.name)
        factor = self.option or "server"
        levels = [_literal(each) if self.option else f'"{each}"' for each in (self.a, self.b)]
        compared = f"{factor} = [{', '.join(levels)}]"
        text = _EXPERIMENT.substitute(
            name=self.name,
            title=self.title,
            workload=f"./{own.name}" if own.exists() else self.workload,
            blocks=size.blocks,
            server=f'server = ["{self.server}"]' if self.option else "",
            compared=compared,
            test=f'test = ["{self.test}"]' if self.test else "",
            clients=self.clients,
            factors=self.factors,
            factor=factor,
            base=levels[0],
            time_s=size.time_s,
            warmup_s=size.warmup_s,
            parameters=self.parameters,
            configuration=self.configuration,
            options=self.options,
            optional=self.optional,
        )
        file = directory / "experiment.toml"
        file.write_text(text, encoding="utf-8")
        return file

    def is_right(self, named: LikelyCause | None) -> bool:
        """Return whether naming this cause, or None, is right."""
        if named is None:
            return not self.expected or CPU_TIME in self.expected
        return named.about != QUEUE and bool({named.kind, *named.settings} & self.expected)


def _literal(value: str) -> str:
    return value if value.isdigit() else f'"{value}"'


_EXPERIMENT = Template("""
name = "known-cause-$name"
title = "$title"
workload = "$workload"
blocks = $blocks
profile_blocks = 0

[factors]
$server
$compared
$test
configuration = ["known-cause"]
clients = [$clients]
$factors

[compare]
factor = "$factor"
base = $base

[parameters]
time_s = $time_s
warmup_s = $warmup_s
$parameters

[configurations.known-cause]
title = "what the case needs"
extends = "$configuration"
[configurations.known-cause.options]
$options
[configurations.known-cause.optional]
$optional
""")

_LOGGED = """log_bin = "binlog"
server_id = 1
innodb_flush_log_at_trx_commit = 1"""

CASES = (
    Case(
        name="count-scan",
        title="count(*) scans the clustered index from 8.0.17 to 8.0.36, though EXPLAIN hides it",
        workload="counting",
        a="mysql-5.7.22",
        b="mysql-8.0.33",
        configuration="cached-oltp",
        expected=frozenset({CPU_TIME, "work"}),
    ),
    Case(
        name="jobs",
        title="the statements of a queue cost more; the binary log does not",
        workload="jobs",
        a="mysql-8.0.33",
        b="mariadb-10.11.19",
        configuration="cached-oltp",
        clients=4,
        parameters="",
        expected=frozenset({CPU_TIME, "work", "lock"}),
    ),
    Case(
        name="temptable-alone",
        title="a GROUP BY in TempTable instead of MEMORY",
        workload="grouping",
        server="mysql-8.0.33",
        option="options.internal_tmp_mem_storage_engine",
        a="MEMORY",
        b="TempTable",
        configuration="cached-oltp",
        expected=frozenset({"internal_tmp_mem_storage_engine"}),
    ),
    Case(
        name="temptable",
        title="a GROUP BY in TempTable, which 5.7 lacks",
        workload="grouping",
        a="mysql-5.7.22",
        b="mysql-8.0.33",
        configuration="cached-oltp",
        expected=frozenset({"internal_tmp_mem_storage_engine"}),
    ),
    Case(
        name="null-join",
        title="a LEFT JOIN by an index whose values are all NULL",
        workload="nulls",
        a="mariadb-10.11.19",
        b="mariadb-11.8.9",
        configuration="cached-oltp",
        parameters='cache_mode = "cached"\nrefs = 300\nrows = 5000',
        expected=frozenset({"plan"}),
    ),
    Case(
        name="query-cache",
        title="answers of the query cache, which 8.0 lacks",
        workload="counting",
        a="mysql-5.7.22",
        b="mysql-8.0.33",
        factors='protocol = ["text"]',
        configuration="cached-oltp",
        optional="query_cache_type = 1\nquery_cache_size = 67108864",
        expected=frozenset({"query_cache_type", "query_cache_size"}),
    ),
    Case(
        name="query-cache-alone",
        title="answers of the query cache",
        workload="counting",
        server="mysql-5.7.22",
        option="options.query_cache_type",
        a="0",
        b="1",
        factors='protocol = ["text"]',
        options="query_cache_size = 67108864",
        expected=frozenset({"query_cache_type"}),
    ),
    Case(
        name="flush-at-commit",
        title="commits that wait for the disk",
        workload="queries",
        test="update",
        server="mariadb-10.11.19",
        option="options.innodb_flush_log_at_trx_commit",
        a="0",
        b="1",
        parameters="",
        expected=frozenset({"innodb_flush_log_at_trx_commit"}),
    ),
    Case(
        name="sync-binlog",
        title="a binary log that is flushed at commit: the default from 5.7 on",
        workload="queries",
        test="update",
        a="mysql-5.6.24",
        b="mysql-5.7.22",
        options=_LOGGED,
        parameters="",
        expected=frozenset({"sync_binlog"}),
    ),
    Case(
        name="binary-log",
        title="a binary log: the default from 8.0 on",
        workload="queries",
        test="update",
        a="mysql-5.7.22",
        b="mysql-8.0.33",
        options="server_id = 1\ninnodb_flush_log_at_trx_commit = 1",
        parameters="",
        expected=frozenset({"log_bin", "sync_binlog"}),
    ),
    Case(
        name="performance-schema",
        title="the Performance Schema, as it is by default",
        workload="queries",
        test="point",
        server="mysql-8.0.33",
        option="options.performance_schema",
        a="OFF",
        b="ON",
        expected=frozenset({"performance_schema"}),
    ),
    Case(
        name="tmp-table-size",
        title="temporary tables too large for memory",
        workload="queries",
        test="group",
        server="mysql-5.7.22",
        option="options.tmp_table_size",
        a="16777216",
        b="1024",
        expected=frozenset({"tmp_table_size"}),
    ),
    Case(
        name="sort-buffer",
        title="a sort too large for its buffer",
        workload="queries",
        test="sort",
        server="mysql-8.0.33",
        option="options.sort_buffer_size",
        a="8388608",
        b="32768",
        expected=frozenset({"sort_buffer_size"}),
    ),
    Case(
        name="derived-merge",
        title="a derived table that is not merged into the query",
        workload="queries",
        test="derived",
        server="mysql-5.7.22",
        option="options.optimizer_switch",
        a="derived_merge=on",
        b="derived_merge=off",
        expected=frozenset({"optimizer_switch", "plan"}),
    ),
    Case(
        name="index-dives",
        title="the estimates of rows for each key of a list",
        workload="queries",
        test="in-list",
        server="mysql-8.0.33",
        option="options.eq_range_index_dive_limit",
        a="10",
        b="200",
        expected=frozenset({"eq_range_index_dive_limit"}),
    ),
    Case(
        name="hash-join",
        title="a hash join, which 5.7 lacks",
        workload="queries",
        test="join",
        a="mysql-8.0.33",
        b="mysql-5.7.22",
        expected=frozenset({"plan"}),
    ),
    Case(
        name="adaptive-hash-index",
        title="rows looked up without the adaptive hash index",
        workload="queries",
        test="look-up",
        server="mysql-8.0.33",
        option="options.innodb_adaptive_hash_index",
        a="ON",
        b="OFF",
        expected=frozenset({"innodb_adaptive_hash_index"}),
    ),
    Case(
        name="a-a",
        title="two versions that execute the query alike",
        workload="queries",
        test="point",
        a="mysql-5.7.19",
        b="mysql-5.7.22",
        expected=frozenset(),
    ),
)
