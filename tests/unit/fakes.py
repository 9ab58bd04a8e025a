"""Execute whole experiments on fake servers: plan, trials, store, verdicts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from millrace.campaign import preparation, scheduler
from millrace.campaign.inputs import RunInput
from millrace.campaign.policies.fixed import Fixed
from millrace.campaign.resume import select_run
from millrace.collect.registry import COLLECTORS
from millrace.experiment.read import read
from millrace.experiment.validation import ValidationContext
from millrace.loadgen import program
from millrace.model.events import ignore
from millrace.model.host_facts import HostFacts
from millrace.servers.instances import users
from millrace.store.records import HostRecord, StoredRun
from millrace.store.store import Store
from millrace.trial import cpu_idle
from tests.fake_family import family
from tests.fake_family import program as fake_program
from tests.fake_family.family import Script
from tests.unit.experiment.files import CONTEXT

HOST = HostRecord("h1", HostFacts.model_validate({"kernel": {"release": "6.1"}}))

FILE = """
name = "fakes"
workload = "updates"
blocks = {blocks}
seed = 3
collectors = ["plans", "waits", "status"]
[factors]
server = {servers}
test = ["read-select"]
clients = [4]
transport = ["socket"]
{factors}
[compare]
{compare}
[parameters]
tables = 1
table_size = 100
time_s = 5
warmup_s = 0
cache_mode = "any"
disable_idle_states = "off"
busy_poll = "off"
colocate_client = "off"
"""


@dataclass(frozen=True)
class Fakes:
    """Fake servers by name, and a directory for everything about them."""

    directory: Path
    scripts: Mapping[str, Script]

    def run(self, *, blocks: int = 4, compare: str | None = None, factors: str = "") -> StoredRun:
        """Run an experiment that compares the servers with the first one.

        ``compare`` replaces that comparison."""
        base, *_ = self.scripts
        compare = compare or f'factor = "server"\nbase = "{base}"'
        path = self.directory / "fakes.toml"
        servers = list(self.scripts)
        path.write_text(
            FILE.format(servers=servers, compare=compare, blocks=blocks, factors=factors), "utf-8"
        )
        experiment = read(path, scale=None, context=self._context())
        with Store.open(self.directory / "results.sqlite") as store:
            chosen = select_run(
                store, experiment, host=HOST, versions={}, command="millrace run", fresh=False
            )
            installed = {
                name: family.install(name, script, self.directory / name)
                for name, script in self.scripts.items()
            }
            treatments = preparation.treatment_inputs(chosen.plan, installed)
            works = [each.workload for each in treatments.values()]
            rule = cpu_idle.policy_of(works, "", None, placeable=False)
            inputs = RunInput(treatments, None, None, rule)
            scheduler.execute(
                store, chosen.run, Fixed(chosen), lambda *_: inputs, ignore, is_new=chosen.is_new
            )
            return store.load_run(chosen.run.id, observations_too=True)

    def _context(self) -> ValidationContext:
        return replace(CONTEXT, servers=tuple(self.scripts), collectors=tuple(COLLECTORS))


def _answered(arguments: Sequence[str], given: str = "") -> dict[str, Any]:
    """Answer as the load generator does, without the time that a process takes to start."""
    answered = fake_program.answer(list(arguments), given)
    assert answered is not None
    return answered


@contextlib.contextmanager
def fakes(directory: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make fake servers and their load generator available inside the block."""
    patch.setenv("MILLRACE_LOAD", str(family.install_load_generator(directory)))
    for name in ("CACHE", "WORK", "STATE", "SNAPSHOTS"):
        patch.setenv(f"MILLRACE_{name}", str(directory / name.lower()))
    patch.setattr(program, "ask", _answered)
    # Their program is Python, which other users may be unable to reach.
    patch.setattr(users, "usable", lambda: False)
    family.register(patch)
    yield
