"""Run the compared load generators, each behind one function from a cell to figures.

All of them send the same statements to the same table of the same server over its socket file. The
CPU time of a client covers its measured part: for sysbench it is read from the kernel when its
threads have started and when it has ended; the others report it themselves.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.loadgen.program import find_load_generator
from millrace.servers.instances.instance import Instance

ROOT = Path(__file__).parents[1]
DATABASE = "sbtest"
TABLE_SIZE = 100_000
RANGE = 100
TEXT, PREPARED = "text", "prepared"

_C, _PAD = "-".join(["01234567890"] * 10), "-".join(["01234567890"] * 5)
_SLAP_STATEMENTS = 2_000


@dataclass(frozen=True)
class Cell:
    """A statement, its protocol, and the number of concurrent connections."""

    statement: str
    protocol: str
    connections: int

    def __str__(self) -> str:
        return f"{self.statement}, {self.protocol}, {self.connections}"


@dataclass(frozen=True)
class Figures:
    """The figures of one run: times of a query in seconds, None where not reported."""

    queries_per_s: float
    server_cpu_s: float
    client_cpu_s: float | None = None
    p50_s: float | None = None
    p99_s: float | None = None


@dataclass(frozen=True)
class Asked:
    """A statement in the syntax of each tool; None for a tool that cannot send it."""

    sql: str
    """With {id} and {end} for the number of a row and of the last row of a range."""
    parameters: tuple[str, ...]
    """The draws for the question marks; no statement without them is prepared."""
    sysbench: tuple[str, ...]


_RANGE_ONLY = (
    "--skip-trx=on", "--point-selects=0", "--simple-ranges=1", "--sum-ranges=0",
    "--order-ranges=0", "--distinct-ranges=0", f"--range-size={RANGE}",
)  # fmt: skip
STATEMENTS = {
    "point select": Asked("SELECT c FROM sbtest1 WHERE id={id}", ("id",), ("oltp_point_select",)),
    "one-row update": Asked(
        "UPDATE sbtest1 SET k=k+1 WHERE id={id}", ("id",), ("oltp_update_index",)
    ),
    "100-row range": Asked(
        "SELECT c FROM sbtest1 WHERE id BETWEEN {id} AND {end}",
        ("id", "end"),
        ("oltp_read_only", *_RANGE_ONLY),
    ),
    # sysbench sends it as text, whatever its options.
    "insert": Asked(
        "INSERT INTO sbtest1 (id, k, c, pad) VALUES (0, {k}, '{c}', '{pad}')", (), ("oltp_insert",)
    ),
}


PACKAGES = {"sysbench": "sysbench", "mysqlslap": "mariadb-client"}


def install(*programs: str) -> None:
    """Install sysbench and mysqlslap from Debian's packages where they are missing."""
    missing = [PACKAGES[program] for program in programs if not shutil.which(program)]
    if not missing:
        return
    print(f"installing {' and '.join(missing)} ...", file=sys.stderr)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *missing]
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        sys.exit(f"{' and '.join(missing)}: could not be installed; as root: {' '.join(command)}")


def build_floor() -> Path:
    """Return the path of the floor, the load generator's example that sends bare packets."""
    command = ["cargo", "build", "--quiet", "--locked", "--release", "--package", "millrace-load"]
    done = subprocess.run(
        [*command, "--example", "floor", "--message-format=json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    messages = (json.loads(line) for line in done.stdout.splitlines())
    return Path([each["executable"] for each in messages if each.get("executable")][-1])


class Bench:
    """The tools against one server. Each method is one run of one tool and one cell."""

    def __init__(self, instance: Instance, floor: Path, seconds: int) -> None:
        self._instance = instance
        self._floor = floor
        self._seconds = seconds

    def sysbench(self, cell: Cell) -> Figures:
        mode = "auto" if cell.protocol == PREPARED else "disable"
        options = [f"--threads={cell.connections}", f"--time={self._seconds}"]
        command = self.sysbench_command(
            *STATEMENTS[cell.statement].sysbench,
            f"--table-size={TABLE_SIZE}",
            f"--db-ps-mode={mode}",
            "--rand-type=uniform",
            "--histogram=on",
            *options,
        )
        server_before = _cpu_s(self._server_pid())
        process = subprocess.Popen([*command, "run"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines: list[str] = []
        client_before = 0.0
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Threads started"):
                client_before = _cpu_s(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        server_cpu_s = _cpu_s(self._server_pid()) - server_before
        text = "".join(lines)
        found = re.search(r"transactions:\s+(\d+)\s+\(([\d.]+) per sec", text)
        if status != 0 or found is None:
            sys.exit(f"sysbench, {cell}: status {status}\n{text}")
        queries = int(found[1])
        histogram = [
            (float(value) / 1e3, int(count))
            for value, count in re.findall(r"^\s+([\d.]+) \|\**\s+(\d+)$", text, re.MULTILINE)
        ]
        return Figures(
            queries_per_s=float(found[2]),
            server_cpu_s=server_cpu_s / queries,
            client_cpu_s=(usage.ru_utime + usage.ru_stime - client_before) / queries,
            p50_s=_percentile(histogram, 0.50),
            p99_s=_percentile(histogram, 0.99),
        )

    def millrace(self, cell: Cell) -> Figures:
        spec = self._spec([_drive(cell, self._seconds)])
        server_before = _cpu_s(self._server_pid())
        events = self._run(spec)
        server_cpu_s = _cpu_s(self._server_pid()) - server_before
        driven = next(event for event in events if event["type"] == "phase")
        record = driven["transactions"][0]
        percentiles = self._percentiles(driven)
        client = driven["client"]
        return Figures(
            queries_per_s=record["count"] / driven["duration_s"],
            server_cpu_s=server_cpu_s / record["count"],
            client_cpu_s=(client["user_s"] + client["system_s"]) / record["count"],
            p50_s=percentiles[0],
            p99_s=percentiles[1],
        )

    def floor(self, cell: Cell) -> Figures:
        asked = STATEMENTS[cell.statement]
        is_prepared = cell.protocol == PREPARED
        sql = asked.sql.replace("{k}", "{id}").replace("{c}", _C).replace("{pad}", _PAD)
        if is_prepared:
            sql = sql.replace("{id}", "?").replace("{end}", "?")
        command = [
            str(self._floor),
            f"--socket={self._instance.socket}",
            f"--user={self._instance.user}",
            f"--password={self._instance.password}",
            f"--database={DATABASE}",
            f"--connections={cell.connections}",
            f"--seconds={self._seconds}",
            f"--rows={TABLE_SIZE - RANGE}",
            f"--span={RANGE - 1}",
            f"--sql={sql}",
            *(["--prepared"] if is_prepared else []),
        ]
        server_before = _cpu_s(self._server_pid())
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        server_cpu_s = _cpu_s(self._server_pid()) - server_before
        if done.returncode != 0:
            sys.exit(f"floor, {cell}: status {done.returncode}")
        result = json.loads(done.stdout)
        return Figures(
            queries_per_s=result["queries_per_second"],
            server_cpu_s=server_cpu_s / result["queries"],
            client_cpu_s=result["client_us_per_query"] / 1e6,
            p50_s=result["p50_us"] / 1e6,
            p99_s=result["p99_us"] / 1e6,
        )

    def mysqlslap(self, cell: Cell, queries: int) -> Figures:
        """Run mysqlslap, which ends after a number of queries.

        The caller passes the number that takes about as long."""
        draw = random.Random(cell.connections)
        asked = STATEMENTS[cell.statement].sql
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
            for _ in range(_SLAP_STATEMENTS):
                first = draw.randint(1, TABLE_SIZE - RANGE)
                sql = asked.format(id=first, end=first + RANGE - 1, k=first, c=_C, pad=_PAD)
                file.write(sql + ";\n")
            file.flush()
            command = [
                "mysqlslap",
                "--no-defaults",
                f"--socket={self._instance.socket}",
                f"--user={self._instance.user}",
                f"--create-schema={DATABASE}",
                "--no-drop",
                "--delimiter=;",
                f"--query={file.name}",
                f"--concurrency={cell.connections}",
                f"--number-of-queries={queries}",
            ]
            environment = {**os.environ, "MYSQL_PWD": self._instance.password}
            server_before = _cpu_s(self._server_pid())
            done = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, text=True, check=False
            )
            server_cpu_s = _cpu_s(self._server_pid()) - server_before
        found = re.search(r"Average number of seconds to run all queries: ([\d.]+)", done.stdout)
        if done.returncode != 0 or found is None:
            sys.exit(f"mysqlslap, {cell}: status {done.returncode}\n{done.stdout}")
        return Figures(queries / float(found[1]), server_cpu_s / queries)

    def prepare(self) -> None:
        """Make the table that all cells use."""
        self._run(self._spec([{"kind": "load_tables", "name": "load"}]))

    def sysbench_command(self, *arguments: str) -> list[str]:
        return [
            "sysbench",
            *arguments,
            f"--mysql-socket={self._instance.socket}",
            f"--mysql-user={self._instance.user}",
            f"--mysql-password={self._instance.password}",
            f"--mysql-db={DATABASE}",
        ]

    def _server_pid(self) -> int:
        pid = self._instance.pid
        if pid is None:
            sys.exit("the server has ended")
        return pid

    def _run(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        command = [str(find_load_generator()), "run", "-"]
        done = subprocess.run(
            command, input=json.dumps(spec), stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode != 0:
            sys.exit(f"millrace-load: status {done.returncode}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def _percentiles(self, driven: dict[str, Any]) -> tuple[float, float]:
        """Return the median and 99th percentile, computed by the program's own command."""
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            json.dump(driven, file)
            file.flush()
            command = [str(find_load_generator()), "histogram", "--json", file.name]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        percentiles = json.loads(done.stdout.splitlines()[0])["percentiles_s"]
        return percentiles["50"], percentiles["99"]

    def _spec(self, phases: Sequence[dict[str, Any]]) -> dict[str, Any]:
        instance = self._instance
        return {
            "version": 2,
            "connection": {
                "socket": str(instance.socket),
                "user": instance.user,
                "password": instance.password,
                "database": DATABASE,
            },
            "workload": _WORKLOAD,
            "seed": 1,
            "phases": phases,
        }


def _drive(cell: Cell, seconds: int) -> dict[str, Any]:
    return {
        "kind": "drive",
        "name": "measure",
        "test": cell.statement,
        "clients": cell.connections,
        "protocol": cell.protocol,
        "end": {"kind": "time", "seconds": seconds},
    }


def _statement(asked: Asked) -> dict[str, Any]:
    names = asked.parameters or ("k", "c", "pad")
    sql = re.sub(r"'?\{\w+\}'?", "?", asked.sql)
    return {"sql": sql, "parameters": list(names)}


# sysbench's own definition: its columns, and its index after the load.
_WORKLOAD = {
    "tables": {
        "sbtest": {
            "name": "sbtest1",
            "rows": TABLE_SIZE,
            "create": (
                "CREATE TABLE {table} (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0'"
                " NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL,"
                " PRIMARY KEY (id)) ENGINE = innodb"
            ),
            "after_load": ["CREATE INDEX k_1 ON {table} (k)"],
            "columns": [
                {"name": "id", "kind": "sequence"},
                {"name": "k", "kind": "integer", "low": 1, "high": TABLE_SIZE},
                {"name": "c", "kind": "digits", "groups": 10, "length": 11},
                {"name": "pad", "kind": "digits", "groups": 5, "length": 11},
            ],
        }
    },
    "generators": {
        "id": {"kind": "integer", "low": 1, "high": TABLE_SIZE},
        "end": {"kind": "derived", "from": "id", "plus": RANGE - 1},
        "k": {"kind": "integer", "low": 1, "high": TABLE_SIZE},
        "c": {"kind": "digits", "groups": 10, "length": 11},
        "pad": {"kind": "digits", "groups": 5, "length": 11},
    },
    "statements": {name: _statement(asked) for name, asked in STATEMENTS.items()},
    "tests": {
        name: {"title": name, "steps": [{"statements": [name]}]} for name in STATEMENTS
    },
}  # fmt: skip


def _percentile(histogram: Sequence[tuple[float, int]], share: float) -> float:
    """Return the value of the bucket at or below which this share of the counts lies."""
    wanted = share * sum(count for _, count in histogram)
    seen = 0
    for value, count in histogram:
        seen += count
        if seen >= wanted:
            return value
    sys.exit("sysbench reported no histogram")


def _cpu_s(pid: int) -> float:
    """Return the CPU time of all threads of a process, user and kernel, to the nanosecond."""
    # The number of another process's CPU clock, in the format of clock_getcpuclockid(3).
    return time.clock_gettime((~pid << 3) | 2)
