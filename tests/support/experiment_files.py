"""Write small experiment files, and read them with a few servers."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from millrace.errors import Diagnostic, ValidationError
from millrace.experiment.model import Experiment
from millrace.experiment.plan import expand
from millrace.experiment.read import NO_OVERRIDES, Overrides, parse, read
from millrace.experiment.validation_context import ValidationContext
from millrace.levels import Level
from millrace.servers import configurations

SHIPPED = Path(__file__).parents[2] / "experiments" / "load-data.toml"


def context(servers: Collection[str], **more: Any) -> ValidationContext:
    """Return the context of an experiment with these servers and the shipped configurations."""
    return ValidationContext(
        servers=servers,
        configurations=configurations.load_builtin(),
        check_configurations=configurations.check,
        definition_of_option_file=configurations.definition_of_option_file,
        check_option=configurations.check_varied_option,
        **more,
    )


SERVERS = (
    "mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.12",
    "mariadb-10.1.23", "mariadb-10.2.11", "mariadb-10.11.19",
)  # fmt: skip
CONTEXT = context(SERVERS, studies=("S1", "S2"), collectors=("threads", "disk"))

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


def experiment_text(
    workload: str = "load-data",
    *,
    servers: Sequence[str] = ("mysql-5.6.24", "mysql-5.7.22"),
    factors: Mapping[str, Sequence[Level]] = MappingProxyType({}),
    compare: tuple[str, Level] | None = None,
    parameters: Mapping[str, Level] = MappingProxyType({}),
    **top: Level | list[str],
) -> str:
    """Return an experiment that compares ``servers``, or another factor with its base."""
    factor, base = compare or ("server", servers[0] if servers else "")
    tables: dict[str, Mapping[str, object]] = {
        "": {"name": "small", "workload": workload, **top},
        "[factors]\n": {"server": servers, **factors} if servers else factors,
        "[compare]\n": {"base": base} if compare is None else {"factor": factor, "base": base},
        "[parameters]\n": parameters,
    }
    return "".join(
        head + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        for head, keys in tables.items()
    )


def read_text(directory: Path, text: str, **more: Any) -> Experiment:
    """Read the experiment written as ``text`` from a file; ``more`` is as of ``parsed``."""
    return read(written(directory, text), **{"scale": None, "context": CONTEXT, **more})


def parsed(
    text: str,
    *,
    scale: str | None = None,
    overrides: Overrides = NO_OVERRIDES,
    context: ValidationContext = CONTEXT,
) -> Experiment:
    """Return the experiment written as ``text``, which names no other files."""
    path = Path("experiment.toml")
    return parse(text, path, scale=scale, context=context, overrides=overrides)


def written(directory: Path, text: str) -> Path:
    """Return the path of an experiment file with this text."""
    path = directory / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    return path


def read_shipped(scale: str | None) -> Experiment:
    """Read experiments/load-data.toml."""
    return read(SHIPPED, scale=scale, context=CONTEXT)


def mistakes_of(text: str, *, context: ValidationContext = CONTEXT) -> list[Diagnostic]:
    """Return the mistakes for which an experiment is refused."""
    with pytest.raises(ValidationError) as raised:
        parsed(text, context=context)
    return list(raised.value.diagnostics)


def places_refused(made: Experiment) -> list[str]:
    """Return the places of the mistakes for which an experiment is not expanded."""
    with pytest.raises(ValidationError) as raised:
        expand(made, seed=1)
    return [mistake.where for mistake in raised.value.diagnostics]
