"""Provide the built-in workloads as data, and their checked form."""

from millrace.model.phases import DRIVE
from millrace.workloads.builtin import load, names, of_test, text
from millrace.workloads.defaults import completed
from millrace.workloads.definition import DataSet, Metric, Test, Workload, parse_workload
from millrace.workloads.phases import Phase
from millrace.workloads.schema_factors import FREE_LEVEL, Parameter, WorkloadFactor

__all__ = [
    "DRIVE", "FREE_LEVEL", "DataSet", "Metric", "Parameter", "Phase", "Test", "Workload",
    "WorkloadFactor", "completed", "load", "names", "of_test", "parse_workload", "text",
]  # fmt: skip
