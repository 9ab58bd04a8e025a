"""Hold what the checks of an experiment file need from outside the file."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from millrace.errors import Diagnostic
from millrace.experiment.diagnostics import Table
from millrace.experiment.model import Experiment

Definitions = Mapping[str, Table]


@dataclass(frozen=True)
class ValidationContext:
    """The names outside an experiment file that the file may use, and checks of its content.

    ``configurations`` are shipped with millrace, ``studies`` are published studies.
    ``suites`` are package suites, names that stand for their newest server.
    ``attached`` are servers that millrace does not start.
    ``collectors`` are those that sample a trial.
    ``check_configurations(definitions, known)`` returns the mistakes in a file's configurations.
    ``definition_of_option_file(text, name)`` returns the configuration of an option file.
    ``check_option(place, name, level)`` returns the mistakes in a level of a varied option.
    ``check_workload`` raises ValidationError for mistakes that the load generator finds.
    """

    servers: Collection[str]
    configurations: Definitions
    check_configurations: Callable[[Definitions, Definitions], list[Diagnostic]]
    definition_of_option_file: Callable[[str, str], Table]
    check_option: Callable[[str, str, object], Iterable[Diagnostic]]
    studies: Collection[str] = ()
    collectors: Collection[str] = ()
    suites: Collection[str] = ()
    attached: Collection[str] = ()
    check_workload: Callable[[Experiment], None] | None = None
