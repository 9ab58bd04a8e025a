"""Measure how much instruction counts of one server differ from start to start.

Each server is counted by a `millrace count` of its own, with tables from a snapshot that a first,
uncounted start makes. The spread is the standard deviation of the starts' medians; ``range`` is the
largest difference between two starts. Both are percent of the mean. Beside other work on the host,
the CPU seconds of the command and its servers say how long it takes alone.

    benchmarks/instructions [--servers A,B] [--test point-query] [--starts 4] [--json FILE]
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import json_file

SERVERS = "mysql-5.6.24,mysql-5.7.22,mysql-8.0.33,mysql-9.7.4,mariadb-10.11.19"
EXPERIMENT = """
name = "{server}"
workload = "sysbench"

[factors]
server = ["{server}"]
configuration = ["cached-oltp"]
test = ["{test}"]

[compare]
factor = "server"
base = "{server}"

[parameters]
table_size = 100_000
cache_mode = "cached"
"""


@dataclass(frozen=True)
class Counted:
    """The counts of a server's starts, and the seconds and CPU seconds that they took in all."""

    server: str
    starts: list[float]
    left_out: int
    took_s: float
    cpu_s: float

    @property
    def mean(self) -> float:
        return statistics.fmean(self.starts)

    @property
    def spread(self) -> float:
        """The standard deviation as a fraction of the mean."""
        return statistics.stdev(self.starts) / self.mean

    @property
    def range(self) -> float:
        """The range as a fraction of the mean."""
        return (max(self.starts) - min(self.starts)) / self.mean


def main() -> None:
    arguments = _arguments()
    found = []
    print("server             instructions  spread   range  starts  left out      s  CPU s")
    with tempfile.TemporaryDirectory(prefix="millrace-instructions-") as place:
        for server in arguments.servers.split(","):
            _count(Path(place), server, arguments.test, starts=1)  # makes the snapshot
            each = _count(Path(place), server, arguments.test, starts=arguments.starts)
            found.append(each)
            print(
                f"{server:18} {each.mean:12,.0f} {100 * each.spread:6.3f}% {100 * each.range:6.3f}%"
                f" {len(each.starts):7} {each.left_out:9} {each.took_s:6.1f} {each.cpu_s:6.1f}",
                flush=True,
            )
    worst = max(each.spread for each in found)
    longest = max(each.took_s for each in found)
    print(f"largest spread {100 * worst:.3f} % (wanted: 0.3), longest {longest:.0f} s (wanted: 90)")
    json_file.write(arguments.json, "instructions", found=list(map(asdict, found)))


def _count(place: Path, server: str, test: str, *, starts: int) -> Counted:
    file = place / f"{server}.toml"
    file.write_text(EXPERIMENT.format(server=server, test=test), encoding="utf-8")
    command = [sys.executable, "-m", "millrace.cli.main", "count", str(file), "--json"]
    command += ["--new", "--store", str(place / "results.sqlite")]
    began, used_s = time.monotonic(), _cpu_s()
    ended = subprocess.run(
        [*command, "--starts", str(starts)], check=False, capture_output=True, text=True
    )
    if ended.returncode:
        raise SystemExit(ended.stderr)
    ((treatment,),) = (each["treatments"] for each in json.loads(ended.stdout)["groups"])
    took_s = time.monotonic() - began
    cpu_s = _cpu_s() - used_s
    return Counted(server, treatment["starts"], treatment["left_out"], took_s, cpu_s)


def _cpu_s() -> float:
    """Return the CPU time of the commands so far, and of all that they started."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--servers", default=SERVERS)
    parser.add_argument("--test", default="point-query")
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
