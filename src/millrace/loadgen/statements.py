"""List the SQL of a specification's clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millrace.loadgen import program
from millrace.loadgen.spec import Drive, RunSpec


def statements(spec: RunSpec) -> Mapping[str, str]:
    """Return the SQL of each statement by its name, with values as a client sends them.

    The result leaves out statements that transactions hardly ever reach. Raise HostError where the
    program fails.
    """
    phases = [
        replace(phase, protocol="text") if isinstance(phase, Drive) else phase
        for phase in spec.phases
    ]
    asked: Mapping[str, str] = program.ask(
        ["statements", "-"], replace(spec, phases=phases).to_json()
    )["statements"]
    return asked
