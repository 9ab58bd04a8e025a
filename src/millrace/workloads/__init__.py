"""Built-in workloads as data, and their checked form."""

from millrace.workloads.definition import (
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
