"""Keys of workloads and parameters that had other names when they were first stored.

Stored runs are read under today's names; identities are made of the first names, so that a plan's
runs, calibrations and histories stay its own.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

V = TypeVar("V")

_FIRST_NAMES = {
    "background_clients": "beside",
    "generators": "draws",
    "cache_mode": "fits",
    "colocate_client": "share_cpu",
    "disable_idle_states": "keep_awake",
    "max_lateness_s": "late_limit_s",
    "snapshot": "template",
}
_NAMES = {first: name for name, first in _FIRST_NAMES.items()}


def read_workload(stored: Mapping[str, object]) -> dict[str, Any]:
    """Return a stored workload's definition under today's names."""
    return _of_workload(stored, _NAMES)


def read_parameters(stored: Mapping[str, V]) -> dict[str, V]:
    """Return stored values of parameters under today's names."""
    return _renamed(stored, _NAMES)


def identify_workload(definition: Mapping[str, object]) -> dict[str, Any]:
    """Return a workload's definition under the names that identities are made of."""
    return _of_workload(definition, _FIRST_NAMES)


def identify_parameters(parameters: Mapping[str, V]) -> dict[str, V]:
    """Return values of parameters under the names that identities are made of."""
    return _renamed(parameters, _FIRST_NAMES)


def _of_workload(definition: Mapping[str, object], names: Mapping[str, str]) -> dict[str, Any]:
    def part(whole: Any, key: str) -> Any:
        if not isinstance(whole, dict) or not isinstance(whole.get(key), dict):
            return whole
        return {**whole, key: _renamed(whole[key], names)}

    def of_test(test: Any) -> Any:
        return part(_renamed(test, names) if isinstance(test, dict) else test, "values")

    renamed: dict[str, Any] = part(_renamed(definition, names), "parameters")
    if isinstance(tests := renamed.get("tests"), dict):
        renamed["tests"] = {name: of_test(test) for name, test in tests.items()}
    return renamed


def _renamed(mapping: Mapping[str, V], names: Mapping[str, str]) -> dict[str, V]:
    renamed = {}
    for name, value in mapping.items():
        other = names.get(name, name)
        # A value that has the other name already keeps it.
        renamed[name if other in mapping else other] = value
    return renamed
