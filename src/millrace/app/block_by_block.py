"""Carrying a campaign's run out block by block: what comes next follows from what there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from millrace.app.run import CONTINUES, run_input, saying_how_to_continue
from millrace.campaign import prepare
from millrace.campaign import scheduler as runner
from millrace.campaign.blocks import joined, n_blocks, usual_block_s, would_be_late
from millrace.campaign.resume import Chosen
from millrace.cli.plan import estimate_or_refuse
from millrace.cli.progress import RunProgress
from millrace.errors import HostError, PermanentHostError
from millrace.experiment.model import Plan
from millrace.store.records import RunRecord, StoredRun
from millrace.store.store import Store
from millrace.trial.resolved_workload import DataFile

TIME_IS_OVER = "no more time is allowed: a larger --max-time goes on"


class BlockByBlock:
    """A run that grows. ``stored`` is all of it so far, None before its first block; what its
    trials need is there until ``stack`` ends."""

    def __init__(
        self, stack: ExitStack, store: Store, chosen: Chosen, *, limit_s: float | None
    ) -> None:
        self.run: RunRecord = chosen.run
        self.stored: StoredRun | None = None if chosen.is_new else store.load_run(chosen.run.id)
        self._stack = stack
        self._store = store
        self._given: dict[tuple[str, ...], runner.RunInput] = {}
        self._data_file: DataFile | None = None
        self._limit_s = limit_s

    @property
    def is_late(self) -> bool:
        """Whether another block would go beyond the time that all trials of the run may take."""
        return would_be_late(self.stored, self._limit_s)

    def carry_out(self, plan: Plan, *, retry_failed: bool = False) -> StoredRun:
        """Carry out the trials of ``plan``, which are of one block, and return the whole run."""
        block = plan.trials[0].block
        given = self.prepare(plan)
        runner.begin(self._store, self._grown(block), plan)
        waiting = {trial.id for trial in plan.trials}
        guess_s = max(usual_block_s(self.stored), 1.0)
        watched = RunProgress(plan, waiting, guess_s)
        with _to_be_tried_again(), saying_how_to_continue(), watched as watch:
            runner.carry_out(self._store, self.run, given, watch, retry_failed=retry_failed)
        return self._join(block)

    def prepare(self, plan: Plan) -> runner.RunInput:
        """What the plan's treatments need, which is refused or made here and not when their turn
        comes; what was prepared before is there. A trial that fails for the sake of the host, by
        what may pass, would speak against its treatment for good, so that it ends the command."""
        key = tuple(treatment.id for treatment in plan.treatments)
        if key not in self._given:
            prepare.refuse_missing_cpus(plan.experiment)
            prepare.refuse_attached(plan)
            with _to_be_tried_again():
                estimate_or_refuse(plan, self._store)
                given = run_input(self._stack, plan, self.stored, self._data_file)
            self._data_file = given.data_file
            self._given[key] = replace(given, stop_at_host_problems=True)
        return replace(self._given[key], plan=plan)

    def record_failure(self, plan: Plan, step: str, reason: str) -> None:
        """Record that the trials of ``plan`` failed before they could be begun."""
        block = plan.trials[0].block
        runner.record_failure(self._store, self._grown(block), plan, step, reason)
        self._join(block)

    def _grown(self, block: int) -> RunRecord:
        """The run with this block."""
        return replace(self.run, blocks=max(block + 1, n_blocks(self.stored)))

    def _join(self, block: int) -> StoredRun:
        later = self._store.load_run(self.run.id, from_block=block)
        self.stored = joined(self.stored, later, from_block=block)
        return self.stored


@contextmanager
def _to_be_tried_again() -> Iterator[None]:
    """What the host cannot do now is told with what goes on when it can."""
    try:
        yield
    except PermanentHostError:
        raise
    except HostError as problem:
        hint = f"{problem.hint}; {CONTINUES}" if problem.hint else CONTINUES
        raise HostError(problem.message, hint=hint) from problem
