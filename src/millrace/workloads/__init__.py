"""Built-in workloads as data, and their checked form."""

from millrace.workloads.definition import (
    FREE_LEVEL,
    DataSet,
    Level,
    Metric,
    Parameter,
    Phase,
    Workload,
    WorkloadFactor,
    checked,
)
from millrace.workloads.library import load, names

__all__ = [
    "FREE_LEVEL",
    "DataSet",
    "Level",
    "Metric",
    "Parameter",
    "Phase",
    "Workload",
    "WorkloadFactor",
    "checked",
    "load",
    "names",
]
