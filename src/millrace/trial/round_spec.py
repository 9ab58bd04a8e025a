"""Convert the phases of a round to the load generator's specification, for all of its servers."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from millrace.loadgen.spec import Drive, LoadData, LoadSpec, Phase, Slices
from millrace.trial import fault_injection, phase_spec
from millrace.trial.hooks import LiveServer
from millrace.trial.spec import TrialSpec

_SLICE_S = 0.005
# Of the time of a server in the round, so that slow transactions leave several groups of slices.
_MOST_OF_TIME = 0.1
# Of each of several clients in a slice, at whose end all wait for the last one.
_FEWEST_TRANSACTIONS = 20
_SLICE_ROWS = 2_000  # about 5 to 15 ms


def load_spec(
    specs: Sequence[TrialSpec], servers: Sequence[LiveServer], activity: Path | None
) -> LoadSpec:
    """Return the specification that drives or loads all servers, each for its time.

    Clients publish their statements in the file ``activity``.
    """
    workload, first = specs[0].workload, servers[0]
    alone = phase_spec.load_spec(
        workload.measuring_phases, workload, first.dialect, first.measured_connection
    )
    for_turns = () if workload.drives else first.dialect.no_read_timeout
    return replace(
        alone,
        session=(*alone.session, *for_turns),
        phases=tuple(_of_all(phase, specs, activity) for phase in alone.phases),
        against=tuple(server.measured_connection for server in servers[1:]),
    )


def _of_all(phase: Phase, specs: Sequence[TrialSpec], activity: Path | None) -> Phase:
    """Return a phase for all servers, in which they take turns."""
    together = replace(phase, limit_s=len(specs) * phase.limit_s)
    match together:
        case LoadData():
            return replace(together, slice_rows=_SLICE_ROWS)
        case Drive(time_s=time_s, clients=clients):
            assert time_s is not None  # checked: see millrace.experiment.rounds
            return replace(
                together,
                warmup_s=len(specs) * together.warmup_s,
                time_s=len(specs) * time_s,
                statement_activity=activity,
                slices=Slices(
                    _SLICE_S,
                    max(_SLICE_S, _MOST_OF_TIME * time_s),
                    _FEWEST_TRANSACTIONS * clients if clients > 1 else 1,
                    tuple(map(fault_injection.slowdown_in_slices, specs)),
                ),
            )
    return together
