"""The causes that ``benchmarks/attribution`` injects, each as the experiment that measures it."""

from dataclasses import dataclass
from string import Template

from benchmarks import injections
from benchmarks.injections import Injection

CHANGED = "changed"
"""The server's other name, where what differs is not an option or factor."""


@dataclass(frozen=True)
class Size:
    """The number and length of a cause's trials; ``settle_s`` is the longest wait before them."""

    blocks: int
    time_s: float
    warmup_s: float
    settle_s: float


@dataclass(frozen=True)
class Cause:
    """A known difference between A and B, and the likely cause that must be named for it.

    ``factors`` are those of the experiment apart from the server; ``compared`` is one of them with
    its levels of A and B. Without ``compared`` the server is compared with itself, B's trials with
    ``inject``. ``expected`` holds (kind, about) of likely causes; an empty about matches any. A
    cause whose effect is small against the difference between trials is measured ``times`` as
    often.
    """

    name: str
    title: str
    factors: str
    expected: frozenset[tuple[str, str]]
    compared: tuple[str, str, str] | None = None
    options: str = ""
    b_options: str = ""
    inject: Injection | None = None
    profile_blocks: int = 0
    rows: int = 50_000
    times: int = 1

    def experiment(self, server: str, size: Size, places: dict[str, str]) -> str:
        """Return the experiment's text; ``places`` are paths that options name."""
        factor, a, b = self.compared or ("server", f'"{server}"', f'"{CHANGED}"')
        servers = (
            f'server = ["{server}"]'
            if self.compared
            else f'server = {{ levels = ["{server}", "{CHANGED}"], '
            f'aliases = {{ {CHANGED} = "{server}" }} }}'
        )
        compared = f"{factor} = [{a}, {b}]" if self.compared else ""
        configurations = "" if factor == "configuration" else 'configuration = ["a"]'
        return _EXPERIMENT.substitute(
            name=self.name,
            title=self.title,
            blocks=self.times * size.blocks,
            profile_blocks=self.profile_blocks,
            servers=servers,
            configurations=configurations,
            compared=compared,
            factors=self.factors,
            factor=factor,
            base=a,
            time_s=size.time_s,
            warmup_s=size.warmup_s,
            settle_s=size.settle_s,
            rows=self.rows,
            options=Template(self.options).substitute(places),
            b_options=self.b_options,
        )


_EXPERIMENT = Template("""
name = "attribution-$name"
title = "$title"
workload = "sysbench"
blocks = $blocks
profile_blocks = $profile_blocks

[factors]
$servers
$configurations
$compared
$factors

[compare]
factor = "$factor"
base = $base

[parameters]
table_size = $rows
time_s = $time_s
warmup_s = $warmup_s
settle_s = $settle_s

[configurations.common]
title = "everything in memory, no binary log"
extends = "default"
[configurations.common.options]
innodb_buffer_pool_size = "256M"
innodb_flush_method = "O_DIRECT"
innodb_flush_log_at_trx_commit = 2
character_set_server = "latin1"
max_connections = 200
skip_log_bin = true
[configurations.common.optional]
innodb_log_file_size = "256M"
innodb_redo_log_capacity = "512M"
query_cache_type = 0
query_cache_size = 0

[configurations.a]
title = "what a cause needs besides"
extends = "common"
[configurations.a.options]
$options

[configurations.b]
title = "the same, but for what is injected"
extends = "a"
[configurations.b.options]
$b_options
""")

_CONFIGURATIONS = ("configuration", '"a"', '"b"')

CAUSES = (
    Cause(
        name="binary-log",
        title="the binary log, with sync_binlog = 1",
        factors='test = ["update-nonindex"]',
        compared=_CONFIGURATIONS,
        options="innodb_flush_log_at_trx_commit = 1\nserver_id = 1",
        b_options='log_bin = "binlog"\nsync_binlog = 1',
        expected=frozenset({("option", "binary log")}),
    ),
    Cause(
        name="performance-schema",
        title="performance_schema with all instruments",
        factors='test = ["point-query"]',
        compared=_CONFIGURATIONS,
        options="performance_schema = 0",
        b_options="""performance_schema = 1
performance_schema_instrument = "%=ON"
performance_schema_consumer_events_waits_current = 1
performance_schema_consumer_events_waits_history = 1
performance_schema_consumer_events_stages_current = 1""",
        times=2,
        expected=frozenset({("option", "Performance Schema")}),
    ),
    Cause(
        name="buffer-pool",
        title="a buffer pool that does not hold the table",
        factors='test = ["random-points-10"]\nclients = [4]',
        compared=("options.innodb_buffer_pool_size", '"256M"', '"8M"'),
        rows=200_000,
        expected=frozenset({("option", "buffer pool")}),
    ),
    Cause(
        name="flush-at-commit",
        title="commits that wait for the disk",
        factors='test = ["update-nonindex"]',
        compared=("options.innodb_flush_log_at_trx_commit", "2", "1"),
        expected=frozenset({("option", "flush of the redo log at commit")}),
    ),
    Cause(
        name="cpu-limit",
        title="the server limited to one CPU",
        factors='test = ["random-points-100"]\nclients = [16]',
        inject=injections.one_cpu,
        expected=frozenset({("environment", "CPU limit")}),
    ),
    Cause(
        name="dropped-index",
        title="an index dropped",
        factors='test = ["range-notcovered-si"]',
        inject=injections.index_dropped,
        rows=10_000,
        expected=frozenset({("plan", "")}),
    ),
    Cause(
        name="row-lock",
        title="32 clients on one row",
        factors="clients = [32]",
        compared=("test", '"update-nonindex"', '"update-one"'),
        expected=frozenset({("lock", "row locks")}),
    ),
    Cause(
        name="tls",
        title="TLS",
        factors='test = ["point-query"]',
        compared=("tls", "false", "true"),
        times=2,
        options="""ssl_ca = "$authority"
ssl_cert = "$certificate"
ssl_key = "$key\"""",
        expected=frozenset({("option", "TLS")}),
    ),
    Cause(
        name="slow-client",
        title="a slower client",
        factors='test = ["point-query"]',
        inject=injections.client_slowed,
        expected=frozenset({("client", "")}),
    ),
    Cause(
        name="compression",
        title="compressed pages",
        factors='test = ["update-nonindex"]',
        inject=injections.tables_compressed,
        profile_blocks=3,
        expected=frozenset({("compression", ""), ("option", "compression")}),
    ),
    Cause(
        name="burnt-core",
        title="another process that burns a core",
        factors='test = ["random-points-10"]\nclients = [4]',
        inject=injections.core_burnt,
        expected=frozenset({("environment", "other processes")}),
    ),
)

NOTHING = Cause(
    name="a-a",
    title="nothing: the same server twice",
    factors='test = ["random-points-10"]',
    expected=frozenset(),
)
