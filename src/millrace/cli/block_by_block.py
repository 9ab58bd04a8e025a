"""Carrying a campaign's run out block by block: what comes next follows from what there is."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace

from millrace.campaign.blocks import joined, n_blocks
from millrace.cli.carrying_out import run_input, saying_how_to_continue
from millrace.cli.plan import estimate_or_refuse
from millrace.cli.progress import RunProgress
from millrace.experiment.model import Plan
from millrace.runner import ownership, prepare
from millrace.runner import run as runner
from millrace.runner.continuing import Chosen
from millrace.store.records import AttemptResult, RunRecord, StoredRun
from millrace.store.store import Store


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
        self._deadline = None if limit_s is None else time.monotonic() + limit_s
        self._longest_s = 0.0

    @property
    def is_late(self) -> bool:
        """Whether the time is over before another block like the longest could end."""
        if self._deadline is None:
            return False
        return time.monotonic() + self._longest_s > self._deadline

    def carry_out(self, plan: Plan, *, retry_failed: bool = False) -> StoredRun:
        """Carry out the trials of ``plan``, which are of one block, and return the whole run."""
        block = plan.trials[0].block
        given = self.prepare(plan)
        began = time.monotonic()
        grown = replace(self.run, blocks=max(block + 1, n_blocks(self.stored)))
        runner.begin(self._store, grown, plan)
        waiting = {trial.id for trial in plan.trials}
        guess_s = max(self._longest_s, 1.0)
        with saying_how_to_continue(), RunProgress(plan, waiting, guess_s) as watch:
            runner.carry_out(self._store, self.run, given, watch, retry_failed=retry_failed)
        self._longest_s = max(self._longest_s, time.monotonic() - began)
        return self._join(block)

    def prepare(self, plan: Plan) -> runner.RunInput:
        """What the plan's treatments need, which is refused or made here and not when their turn
        comes; what was prepared before is there."""
        key = tuple(treatment.id for treatment in plan.treatments)
        if key not in self._given:
            prepare.refuse_missing_cpus(plan.experiment)
            prepare.refuse_attached(plan)
            estimate_or_refuse(plan, self._store)
            self._given[key] = run_input(self._stack, plan, self.stored)
        return replace(self._given[key], plan=plan)

    def record_failure(self, plan: Plan, step: str, reason: str) -> None:
        """Record that the trials of ``plan`` failed before they could be begun."""
        block = plan.trials[0].block
        grown = replace(self.run, blocks=max(block + 1, n_blocks(self.stored)))
        runner.begin(self._store, grown, plan)
        owner = ownership.this_process(self.run.host.id)
        for trial in plan.trials:
            attempt = self._store.claim(
                runner.stored_trial_id(self.run, trial),
                owner,
                runner.utc_now(),
                is_alive=ownership.is_alive,
                retry_failed=True,
            )
            if attempt is not None:
                failed = AttemptResult("failed", failed_step=step, reason=reason)
                self._store.finish(attempt, failed, runner.utc_now())
        self._join(block)

    def _join(self, block: int) -> StoredRun:
        later = self._store.load_run(self.run.id, from_block=block)
        self.stored = joined(self.stored, later, from_block=block)
        return self.stored
