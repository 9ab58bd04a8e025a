"""Write small experiment files, and read them with a few servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.errors import Diagnostic, ValidationError
from millrace.experiment.levels import ValidationContext
from millrace.experiment.model import Experiment
from millrace.experiment.read import NO_OVERRIDES, Overrides, read
from millrace.servers import configurations

SHIPPED = Path(__file__).parents[3] / "experiments" / "load-data.toml"

CONTEXT = ValidationContext(
    servers=(
        "mysql-5.6.24",
        "mysql-5.7.22",
        "mysql-8.0.12",
        "mariadb-10.1.23",
        "mariadb-10.2.11",
        "mariadb-10.11.19",
    ),
    configurations=configurations.load_builtin(),
    check_configurations=configurations.check,
    definition_of_option_file=configurations.definition_of_option_file,
    check_option=configurations.check_varied_option,
    studies=("S1", "S2"),
    collectors=("threads", "disk"),
)

SMALL = """\
name = "small"
workload = "load-data"

[factors]
server = ["mysql-5.6.24", "mysql-5.7.22"]

[compare]
base = "mysql-5.6.24"

[parameters]
rows = 1000
"""

DRIVEN = """\
name = "driven"
workload = "sysbench"

[factors]
server = ["mysql-5.6.24", "mysql-5.7.22"]
test = ["point-query"]

[compare]
base = "mysql-5.6.24"

[parameters]
table_size = 1000
"""


def read_text(
    directory: Path,
    text: str,
    *,
    scale: str | None = None,
    overrides: Overrides = NO_OVERRIDES,
) -> Experiment:
    """Read the experiment written as ``text``."""
    path = directory / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    return read(path, scale=scale, context=CONTEXT, overrides=overrides)


def read_shipped(scale: str | None) -> Experiment:
    """Read experiments/load-data.toml."""
    return read(SHIPPED, scale=scale, context=CONTEXT)


def mistakes_of(directory: Path, text: str) -> list[Diagnostic]:
    """Return the mistakes for which an experiment file is refused."""
    with pytest.raises(ValidationError) as raised:
        read_text(directory, text)
    return list(raised.value.diagnostics)
