"""Count the instructions of a trial's statements, in a server that is started for it in callgrind.

One client is driven. The steps of a start:

    prepare · restore · start · check_tables · warm · fits · count · kill · read

The server starts natively first where its tables have no snapshot yet. Nothing is counted until the
tables are read and the client's statements were executed for a while: page checksums, first uses
of prepared statements and the like would be half of the count, and an adaptive hash index that is
built meanwhile would make each repetition cheaper. Each repetition has two sessions of seeded
statements; the second has more (see millrace.collect.counting.statements). The dumps are files of
the server, so millrace reads them once the server has ended.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace

from elftools.common.exceptions import ELFError

from millrace.collect.counting.callgrind import read_dumps
from millrace.collect.counting.statements import ClientSession, StatementCount, repetitions
from millrace.databases.client import QUERY_LIMIT_S, Session
from millrace.errors import HostError, TrialFailed
from millrace.host import elf, valgrind
from millrace.host.cpu_clock import clock_ns
from millrace.host.valgrind import Valgrind
from millrace.loadgen.events import DriveResult
from millrace.loadgen.spec import Closed, Drive, LoadSpec
from millrace.model.events import StepBegan
from millrace.model.instruction_counts import CallPath, CountedStart, Program, stored_counts
from millrace.model.measurements import INSTRUCTIONS
from millrace.model.roles import SERVER
from millrace.model.servers import AttachedServer, InstalledServer
from millrace.servers.instances.instance import Instance
from millrace.servers.instances.launch import Tool
from millrace.store.records import AttemptResult
from millrace.trial import phase_spec
from millrace.trial.client_preparation import ClientPreparation
from millrace.trial.data_directory import DATABASE
from millrace.trial.execute import attempt_result, reason_of
from millrace.trial.load_run import Emit, run_load
from millrace.trial.managed_server import ManagedServer
from millrace.trial.outputs import TrialOutputs
from millrace.trial.spec import TrialSpec
from millrace.trial.steps import Step, StepsOutcome, execute_steps
from millrace.trial.trial_server import STOP_LIMIT_S, TrialContext

_WARMING = 50  # times the transactions of a session, at most
_SESSION_S = 8.0

_COUNT_LIMIT_S = 1800.0
_READ_LIMIT_S = 600.0
_MONITOR_LIMIT_S = 120.0
_FEWEST_REPETITIONS = 2
_FIRST = 12  # transactions that show how long one takes
_POLL_S = 0.01
_SEEDS = 1 << 63
REPETITIONS = 4
"""The repetitions of a start."""


@dataclass(frozen=True)
class Extent:
    """The transactions of the two sessions of a repetition."""

    few: int
    many: int


EXTENTS = tuple(Extent(many // 6, many) for many in (480, 180, 60, 24, 6))
"""The extents to choose from: servers are compared by the same transactions."""


def extent_for(transaction_s: float) -> Extent:
    """Return the largest extent that takes little time, by a counted transaction's CPU seconds."""
    short = (each for each in EXTENTS if each.many * transaction_s <= _SESSION_S)
    return next(short, EXTENTS[-1])


def extent_of(transactions: int) -> Extent | None:
    """Return the extent whose longer sessions have this number of transactions, if any."""
    return next((each for each in EXTENTS if each.many == transactions), None)


def warming_for(index_reads: int, extent: Extent) -> int:
    """Return the transactions that complete an index that takes ``index_reads``; 0 for too many.

    An index of larger tables would not be complete, but hardly changes while statements are
    counted.
    """
    return index_reads if index_reads <= _WARMING * extent.many else 0


@dataclass
class CountedServer:
    """One start of a server; each method is a step."""

    trial: TrialContext
    counting: Valgrind
    extent: Extent | None
    found: CountedStart | None = None
    _server: ManagedServer = field(init=False)
    _extent: Extent = field(init=False)
    _driven: list[int] = field(default_factory=list)  # statements of each dump
    _sessions: int = 0  # so far

    def execute(self) -> StepsOutcome:
        """Execute the steps of the start."""
        return execute_steps(self.steps(), lambda step: self.trial.emit(StepBegan(name=step)))

    def steps(self) -> Iterator[Step]:
        """Yield the steps from the server's start to the result."""
        spec = self.trial.spec.servers[0]
        assert isinstance(spec.server, InstalledServer)  # others are refused before
        self._server = ManagedServer(spec, spec.server, self.trial, self._tool)
        yield from self._server.ready_steps()
        self._require_snapshot()
        workload, server = self.trial.spec.workload, self._server.live()
        preparation = ClientPreparation(workload, server, self.trial.outputs, self.trial.emit)
        yield from preparation.warming_steps()
        yield Step("count", self._count, _COUNT_LIMIT_S)
        yield Step("kill", self._kill, STOP_LIMIT_S)
        yield Step("read", self._read, _READ_LIMIT_S)

    def _tool(self, instance: Instance) -> Tool:
        return Tool(
            self.counting.callgrind(instance.tmp_dir),
            valgrind.environment(instance.tmp_dir),
            instance.family.lifecycle.valgrind_arguments(instance.server.version),
        )

    def _require_snapshot(self) -> None:
        why = self._server.not_restored
        if why is not None:
            raise TrialFailed(
                f"the loaded tables could not be kept as a snapshot: {why}",
                hint="instructions are counted on tables that several starts of a server share",
            )

    def _count(self, limit_s: float) -> None:
        with closing(self._server.instance.connect(limit_s=QUERY_LIMIT_S)) as session:
            monitor = _Monitor(self._server.instance, self.counting, session)
            self._drive(_FIRST, limit_s)
            monitor.send(valgrind.COUNT)
            # callgrind translates each instruction when it comes for the first time.
            took_s = min(self._cpu_s(_FIRST, limit_s) for _ in range(2))
            extent = self.extent or extent_for(took_s / _FIRST)
            if warming := self._warming(extent):
                monitor.send(valgrind.PAUSE)  # 50 times as fast
                self._drive(warming, limit_s)
                # Where no index is warmed, the counted sessions have the same statements.
                self._sessions -= 1
                monitor.send(valgrind.COUNT)
            self._drive(extent.many, limit_s)
            monitor.send(valgrind.FORGET)
            for transactions in REPETITIONS * (extent.few, extent.many):
                result = self._drive(transactions, limit_s)
                self._driven.append(sum(each.count for each in result.statements))
                monitor.send(valgrind.DUMP)
            self._extent = extent

    def _warming(self, extent: Extent) -> int:
        """Return the transactions that complete the server's index in memory; 0 without one."""
        settings = self.trial.outputs.instances[SERVER].effective
        workload = self.trial.spec.workload
        data_bytes = workload.checked.data_bytes(workload.chosen)
        storage = self._server.instance.family.storage
        return warming_for(storage.adaptive_index_reads(data_bytes, settings), extent)

    def _cpu_s(self, transactions: int, limit_s: float) -> float:
        """Return the server's CPU time of some transactions, which other programs do not change."""
        pid = self._server.instance.pid
        assert pid is not None
        before_ns = clock_ns(pid)
        self._drive(transactions, limit_s)
        return (clock_ns(pid) - before_ns) / 1e9

    def _drive(self, transactions: int, limit_s: float) -> DriveResult:
        """Let a client execute transactions in a session of its own."""
        server = self._server.live()
        result = run_load(
            self._load_spec(transactions), server.check, self.trial.emit, limit_s
        ).driven()
        assert result is not None
        _require_all(result, transactions)
        return result

    def _load_spec(self, transactions: int) -> LoadSpec:
        workload, server = self.trial.spec.workload, self._server.live()
        spec = phase_spec.load_spec(
            workload.measuring_phases, workload, server.dialect, server.measured_connection
        )
        assert spec.tables is not None  # clients are driven on them
        # Statements that were executed before would change no row again. All starts have the same.
        self._sessions += 1
        seed = (spec.tables.seed + self._sessions) % _SEEDS
        drives = (each for each in spec.phases if isinstance(each, Drive))
        counted = (
            replace(
                each,
                clients=1, threads=1, pacing=Closed(), warmup_s=0.0, until_steady=False,
                time_s=None, transactions=transactions, linger_s=0.0,
            )
            for each in drives
        )  # fmt: skip
        return replace(spec, phases=tuple(counted), tables=replace(spec.tables, seed=seed))

    def _kill(self, _limit_s: float) -> None:
        self._server.instance.check_alive(step="kill")
        self._server.instance.kill()

    def _read(self, _limit_s: float) -> None:
        instance = self._server.instance
        functions = instance.family.monitoring.threads.command_functions
        dumps = read_dumps(instance.tmp_dir)
        driven = [
            ClientSession(number, dumps.get(at, {}))
            for at, number in enumerate(self._driven, start=1)
        ]
        found, failures = repetitions(driven[::2], driven[1::2], functions, valgrind.MOST_CALLERS)
        if len(found) < _FEWEST_REPETITIONS:
            raise TrialFailed(
                f"{instance.server.name}: the counts do not belong to a statement: {failures[0]}"
            )
        self.found = _counted(self._extent, found)


class _Monitor:
    """The monitor commands for a server in callgrind, which a session makes work meanwhile."""

    def __init__(self, instance: Instance, counting: Valgrind, session: Session) -> None:
        self._instance = instance
        self._counting = counting
        self._session = session

    def send(self, command: str) -> None:
        """Send a command once clients' sessions have ended; return when it was executed."""
        deadline = time.monotonic() + _MONITOR_LIMIT_S
        while self._sessions():
            if time.monotonic() > deadline:
                raise TrialFailed(f"{self._instance.server.name}: a client's session does not end")
            time.sleep(_POLL_S)
        assert self._instance.pid is not None
        argv = self._counting.monitor(self._instance.tmp_dir, self._instance.pid, command)
        self._instance.run_confined(argv, _MONITOR_LIMIT_S, self._sessions)

    def _sessions(self) -> int:
        monitoring = self._instance.family.monitoring
        return monitoring.sessions_in(self._session, DATABASE)


def _counted(extent: Extent, found: Sequence[StatementCount]) -> CountedStart:
    """Return a start with the means of its repetitions' call paths."""
    paths: defaultdict[CallPath, float] = defaultdict(float)
    files: dict[str, str] = {}
    for each in found:
        files.update(each.files)
        for path, instructions in each.paths.items():
            paths[path] += instructions / len(found)
    return CountedStart(
        transactions=extent.many,
        repetitions=tuple(each.counted for each in found),
        paths=dict(paths),
        files=files,
    )


def _require_all(result: DriveResult, transactions: int) -> None:
    """Raise TrialFailed unless each transaction succeeded."""
    done = sum(each.count for each in result.transactions)
    if done != transactions or any(each.errors for each in result.statements):
        said = next(iter(result.error_messages.values()), result.partial_reason or "")
        raise TrialFailed(
            f"only {done:,} of {transactions:,} transactions succeeded: {said}",
            hint="a statement that fails or waits has no count of its own",
        )


def refusal(spec: TrialSpec) -> str | None:
    """Return why no instructions of a trial can be counted; None where they can."""
    if any(isinstance(each.server, AttachedServer) for each in spec.servers):
        return "the server is attached, and millrace cannot start it in valgrind"
    if len(spec.servers) > 1:
        return (
            "it has several servers, and a statement's instructions would be those of one of them"
        )
    if not spec.workload.is_restorable:
        return "it has no statements of clients on tables that are kept as a snapshot"
    return None


def count_trial(spec: TrialSpec, extent: Extent | None, emit: Emit) -> AttemptResult:
    """Count the statements of a trial and return its result, with a failure as one.

    It starts the server once more where that fails, as it may on a busy host.
    """
    why = refusal(spec)
    if why is not None:
        return AttemptResult("failed", failed_step="prepare", reason=why)
    try:
        program = valgrind.find()
    except HostError as error:
        return AttemptResult("failed", failed_step="prepare", reason=reason_of(error))
    first = _count_trial(spec, program, extent, emit)
    if first.outcome == "finished" or first.is_transient:
        return first
    return _count_trial(spec, program, extent, emit)


def _count_trial(
    spec: TrialSpec, counting: Valgrind, extent: Extent | None, emit: Emit
) -> AttemptResult:
    outputs = TrialOutputs()
    with ExitStack() as opened:
        start = CountedServer(TrialContext(spec, outputs, opened, emit), counting, extent)
        ended = start.execute()
        if start.found is not None:
            repetitions = [each.instructions for each in start.found.repetitions]
            outputs.add_measurement(INSTRUCTIONS, round(statistics.median(repetitions)))
            counts = stored_counts(start.found, program_of(spec), counting.version)
            outputs.observations[SERVER] = {"instructions": counts}
        return attempt_result(outputs, ended)


def program_of(spec: TrialSpec) -> Program | None:
    """Return what the program of a trial's server says of how it was made."""
    (server,) = (each.server for each in spec.servers)
    assert isinstance(server, InstalledServer)  # others are refused
    try:
        read = elf.read(server.program)
    except (ELFError, OSError):
        return None
    return Program(compilers=read.comment, position_independent=read.is_position_independent)
