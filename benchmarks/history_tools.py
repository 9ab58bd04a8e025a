"""Run other detectors of change points, each in a virtual environment of its own.

They require incompatible versions of numpy."""

import json
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from millrace.paths import cache_dir

_PROGRAM = """
import json, sys, time
{function}
series = json.load(sys.stdin)
found = []
begun = time.process_time()
for values in series:
    found.append([int(index) for index in detect(values)])
json.dump({{"found": found, "cpu_s": time.process_time() - begun}}, sys.stdout)
"""


@dataclass(frozen=True)
class Tool:
    """A detector, by the name of its package on the index.

    It has the source of a function ``detect`` from a list of values to indexes."""

    name: str
    requirement: str
    function: str


OTAVA = Tool(
    "Otava 0.8",
    "apache-otava==0.8.0",
    """
from otava.analysis import compute_change_points
def detect(values):
    return [point.index for point in compute_change_points(values)[0]]
""",
)
E_DIVISIVE = Tool(
    "MongoDB E-divisive",
    "signal-processing-algorithms==2.1.5",
    """
from signal_processing_algorithms.energy_statistics.energy_statistics import e_divisive
import numpy
numpy.random.seed(1)
def detect(values):
    return e_divisive(values)
""",
)
RUPTURES = Tool(
    "ruptures KernelCPD",
    "ruptures==1.1.10",
    """
import numpy, ruptures
def detect(values):
    logs = numpy.log(values)
    differences = numpy.diff(logs)
    spread = 1.4826 * numpy.median(abs(differences - numpy.median(differences))) / 2**0.5
    scaled = ((logs - numpy.median(logs)) / (spread or 1.0)).reshape(-1, 1)
    search = ruptures.KernelCPD("rbf", min_size=2, params={"gamma": 1.0}).fit(scaled)
    return search.predict(pen=numpy.log(len(logs)))[:-1]
""",
)
TOOLS = (OTAVA, E_DIVISIVE, RUPTURES)


class Missing(Exception):
    """An error that says why a tool could not be installed."""


def installed(tool: Tool) -> Path:
    """Return the Python that has the tool, in the user's cache.

    Raise Missing where it cannot be installed."""
    place = cache_dir() / "benchmarks" / tool.requirement.replace("==", "-")
    python = place / "bin" / "python"
    done = place / "installed"
    if not done.exists():
        print(f"installing {tool.requirement} ...", file=sys.stderr)
        venv.create(place, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", tool.requirement]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            lines = result.stderr.strip().splitlines() or ["pip failed"]
            raise Missing(f"{tool.requirement} could not be installed: {lines[-1]}")
        done.touch()
    return python


def detect(
    tool: Tool, python: Path, series: Sequence[Sequence[float]]
) -> tuple[list[list[int]], float]:
    """Return the change points of each series, and the CPU time of all in seconds."""
    result = subprocess.run(
        [str(python), "-c", _PROGRAM.format(function=tool.function)],
        input=json.dumps([list(values) for values in series]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer = json.loads(result.stdout)
    return answer["found"], answer["cpu_s"]
