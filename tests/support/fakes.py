"""Execute whole experiments on fake servers: plan, trials, store, verdicts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from millrace.campaign import preparation, scheduler
from millrace.campaign.inputs import RunInput
from millrace.campaign.policies.experiment import Fixed
from millrace.campaign.resume import select_run
from millrace.collect.registry import COLLECTORS
from millrace.experiment.read import read
from millrace.experiment.validation_context import ValidationContext
from millrace.model.events import ignore
from millrace.model.host_facts import HostFacts
from millrace.store.records import HostRecord, StoredRun
from millrace.store.store import Store
from millrace.trial import cpu_idle
from tests.fake_family import family
from tests.fake_family.family import Script
from tests.support.experiment_files import CONTEXT

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
        experiment = read(path, scale=None, context=self.context())
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

    def context(self) -> ValidationContext:
        """Return the names that experiments on these servers may use."""
        return replace(CONTEXT, servers=tuple(self.scripts), collectors=tuple(COLLECTORS))
