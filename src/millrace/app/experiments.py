"""Collect the names that an experiment may refer to on this host."""

from __future__ import annotations

from pathlib import Path

from millrace.collect.registry import COLLECTORS, PROFILE
from millrace.experiment.model import Experiment
from millrace.experiment.read import NO_OVERRIDES, Overrides, read
from millrace.experiment.validation import ValidationContext
from millrace.servers import catalogue, configurations, install
from millrace.studies.lookup import study_names

CHOOSABLE = tuple(name for name in COLLECTORS if name != PROFILE)
"""The names of the collectors that a user may choose, in the order in which they start."""


def validation_context() -> ValidationContext:
    """Return the names that an experiment may refer to on this host."""
    listings = install.list_servers()
    return ValidationContext(
        servers=[listing.name for listing in listings],
        configurations=configurations.load_builtin(),
        check_configurations=configurations.check,
        check_option=configurations.check_varied_option,
        studies=study_names(),
        collectors=CHOOSABLE,
        suites=tuple(catalogue.suites()),
        attached=[listing.name for listing in listings if listing.state == "attached"],
    )


def read_experiment(
    path: Path, *, scale: str | None = None, overrides: Overrides = NO_OVERRIDES
) -> Experiment:
    """Read an experiment file and check it against the servers and configurations of this host."""
    return read(path, scale=scale, context=validation_context(), overrides=overrides)
