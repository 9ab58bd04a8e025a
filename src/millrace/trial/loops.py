"""Drive the clients of a trial in loops: each goes on with the tables that the last one left.

The last loop is the trial's measurement like any other's, with collectors and the seconds of its
clients. Those before it make the tables age, and each produces a ``LoopRecord``. Their server runs
from loop to loop. Where millrace ends before the trial does, its data directory is kept
(``snapshots/kept_data``); the next attempt recovers it, and begins with the loop that had no end.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from millrace.loadgen.spec import LoadSpec
from millrace.model import measurements as names
from millrace.model.documents import as_lines
from millrace.model.events import LoopEnded
from millrace.servers.instances.instance import Instance
from millrace.servers.snapshots.kept_data import KeptData
from millrace.store.attempt_files import LOOPS, parse_loops
from millrace.store.records import LoopOperation, LoopRecord, NewArtefact
from millrace.trial.hooks import LiveServer
from millrace.trial.outputs import TrialOutputs
from millrace.trial.sizes import directory_bytes
from millrace.trial.trial_server import TrialContext

Measure = Callable[[int, TrialOutputs], object]
"""Measure the loop of a number into outputs of its own."""

_SEED_STEP = 0x9E37_79B9_7F4A_7C15
_MOST_SEED = (1 << 63) - 1


@dataclass
class Loops:
    """The loops of a trial on its ``server``; ``kept`` has those that have ended."""

    trial: TrialContext
    server: LiveServer
    kept: KeptData
    phase: str  # that drives the clients
    _first: int = 1
    _is_resumed: bool = False

    def measure_earlier(self, measure: Measure, _limit_s: float) -> None:
        """Measure the loops before the last one, from the first that has not ended.

        The data directory is kept from now on. Raise TrialFailed.
        """
        self._begin()
        try:
            for number in range(self._first, self.trial.spec.loops):
                outputs = TrialOutputs(instances=dict(self.trial.outputs.instances))
                measure(number, outputs)
                self._end(number, outputs)
        except BaseException:
            self._keep_figures()
            raise

    def end(self) -> None:
        """Keep the figures of all loops, once the trial's outputs have those of the last one."""
        self._end(self.trial.spec.loops, self.trial.outputs)
        loops = self._keep_figures()
        outputs, role = self.trial.outputs, self.server.role
        cold = sum(each.restarted_cold for each in loops)
        transactions = sum(each.transactions for each in loops)
        outputs.add_measurement(names.LOOPS_TRANSACTIONS, transactions, role)
        outputs.add_measurement(names.LOOPS_S, sum(each.duration_s for each in loops), role)
        outputs.add_measurement(names.LOOPS_RESTARTED_COLD, cold, role)

    def _begin(self) -> None:
        self._is_resumed = self.kept.was_adopted
        if self._is_resumed:
            # The last loop is measured again: what it measured was not stored.
            ended = parse_loops(self.kept.progress())[: self.trial.spec.loops - 1]
            self.kept.replace_progress(as_lines(ended))
            self._first = len(ended) + 1
            return
        self.kept.begin(self._instance if self.trial.spec.workload.survives_restart else None)

    @property
    def _instance(self) -> Instance | None:
        return self.server.client if isinstance(self.server.client, Instance) else None

    def _end(self, number: int, outputs: TrialOutputs) -> None:
        figures = self._figures(number, outputs)
        self.kept.append(figures.model_dump_json())
        self.trial.emit(
            LoopEnded(
                loop=number,
                loops=self.trial.spec.loops,
                transactions=figures.transactions,
                duration_s=figures.duration_s,
                restarted_cold=figures.restarted_cold,
            )
        )

    def _figures(self, number: int, outputs: TrialOutputs) -> LoopRecord:
        measured = {each.name: each.value for each in outputs.measurements}
        files = None if self._instance is None else directory_bytes(self._instance.data_dir)
        return LoopRecord(
            loop=number,
            transactions=int(measured[names.TRANSACTIONS]),
            errors=int(measured[names.ERRORS]),
            duration_s=measured[names.duration_s(self.phase)],
            restarted_cold=self._is_resumed and number == self._first,
            apparent_bytes=None if files is None else files.apparent,
            allocated_bytes=None if files is None else files.allocated,
            operations=tuple(
                LoopOperation(
                    name=each.name, count=each.count, sum_s=each.sum_s, encoded=each.encoded
                )
                for each in outputs.histograms
                if (each.of, each.kind) == ("transaction", "service")
            ),
        )

    def _keep_figures(self) -> tuple[LoopRecord, ...]:
        """Make the figures a file of the attempt, and return them."""
        content = self.kept.progress()
        self.trial.outputs.artefacts.append(NewArtefact(LOOPS, self.server.role, content))
        return parse_loops(content)


def seeded(load_spec: LoadSpec, number: int) -> LoadSpec:
    """Return a specification whose clients do not repeat the statements of an earlier loop."""
    if load_spec.tables is None:
        return load_spec
    seed = seed_of(load_spec.tables.seed, number)
    return replace(load_spec, tables=replace(load_spec.tables, seed=seed))


def seed_of(seed: int, number: int) -> int:
    """Return the seed of a loop's statements; that of the first one is the trial's."""
    return (seed + (number - 1) * _SEED_STEP) & _MOST_SEED
