"""What the clients of a specification will ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millrace.loadgen import program
from millrace.loadgen.spec import Drive, RunSpec


def statements(spec: RunSpec) -> Mapping[str, str]:
    """The SQL of each statement by its name, with values that a client sends; those that
    transactions hardly ever come to are left out. Raises HostError when the program cannot."""
    phases = [
        replace(phase, protocol="text") if isinstance(phase, Drive) else phase
        for phase in spec.phases
    ]
    asked: Mapping[str, str] = program.ask(
        ["statements", "-"], replace(spec, phases=phases).to_json()
    )["statements"]
    return asked
