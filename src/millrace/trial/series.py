"""Keep the seconds of driven clients as JSON lines, also where the measurement fails."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

from millrace.loadgen.events import DriveInterval, DriveResult, Event, Mark
from millrace.trial.hooks import MeasurementContext, MeasurementHook
from millrace.trial.outputs import TrialOutputs


def hooks(measurement: MeasurementContext, opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield the hook that keeps the series; it has no lines where no clients are driven."""
    series = _Series()
    opened.callback(series.keep, measurement.outputs, measurement.servers[0].role)
    yield series


class _Series(MeasurementHook):
    """The intervals of the drive phase, its marks in between, and its figures at the end."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def on_event(self, event: Event) -> None:
        match event:
            case Mark(mark="phase_started"):
                pass  # of phases of all kinds, while the series belongs to the one that drives
            case Mark() | DriveInterval():
                self._lines.append(json.dumps(event.to_json()))
            case DriveResult():
                self._lines.append(json.dumps(event.figures()))

    def keep(self, outputs: TrialOutputs, role: str) -> None:
        if self._lines:
            lines = "".join(f"{line}\n" for line in self._lines)
            outputs.artefacts.append(("series", role, lines.encode()))
