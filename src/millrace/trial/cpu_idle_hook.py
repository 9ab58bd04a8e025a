"""Apply a trial's settings about idle CPUs while it measures."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

from millrace.loadgen.cpu_idle import DisabledIdleStates, disable_idle_states
from millrace.loadgen.events import LoadResult
from millrace.loadgen.spec import Drive, LoadSpec
from millrace.trial import cpu_idle
from millrace.trial.cpu_idle import CpuIdleSettings
from millrace.trial.hooks import MeasurementContext, MeasurementHook, adjust_drives
from millrace.trial.outputs import TrialOutputs


def hooks(measurement: MeasurementContext, opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield the hook of a trial that has settings about idle CPUs."""
    settings = measurement.spec.cpu_idle
    if settings is not None:
        yield _CpuIdle(measurement.outputs, settings, opened.enter_context(ExitStack()))


@dataclass
class _CpuIdle(MeasurementHook):
    _outputs: TrialOutputs
    _settings: CpuIdleSettings
    _kept_awake: ExitStack
    _awake: DisabledIdleStates | None = None

    def adjust(self, load_spec: LoadSpec) -> LoadSpec:
        return adjust_drives(load_spec, self._adjusted)

    def _adjusted(self, drive: Drive) -> Drive:
        cpus, shared = self._settings.client_cpus, self._settings.shared_cpu
        if shared is not None:
            cpus = (shared,)
        return replace(drive, busy_poll=self._settings.busy_poll, cpus=drive.cpus or cpus)

    def before(self) -> None:
        if self._settings.disable_idle_states:
            self._awake = self._kept_awake.enter_context(disable_idle_states())

    def ended(self) -> None:
        self._kept_awake.close()

    def contribute(self, result: LoadResult) -> None:
        self._outputs.add_facts(
            cpu_idle=cpu_idle.fact(self._settings, self._awake, result.driven())
        )
