"""Make records for the tests of the store: plain ones, and arbitrary ones."""

from base64 import b64encode
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from millrace.levels import Level
from millrace.model.host_facts import HostFacts
from millrace.model.instance_facts import InstanceFacts
from millrace.model.run_spec import RunSpec
from millrace.model.servers import BuildFacts
from millrace.model.trials import Outcome
from millrace.store.records import (
    AttemptResult,
    HistogramRecord,
    HostRecord,
    InstanceRecord,
    MeasurementRecord,
    NewArtefact,
    OptionRecord,
    Owner,
    RunRecord,
    ServerRecord,
    StepRecord,
    StoredRun,
    TreatmentRecord,
    TrialRecord,
)
from millrace.store.store import Store

NOW = "2026-05-01T12:00:00Z"
LATER = "2026-05-01T12:05:00Z"
OWNER = Owner("host", "boot", 4711, 123456)
OTHER_OWNER = Owner("host", "boot", 4712, 123999)


def alive(_owner: Owner) -> bool:
    return True


def dead(_owner: Owner) -> bool:
    return False


CALIBRATES = {
    "digest": "d", "name": "study", "factor": "server", "base": "a", "blocks": 10, "margin": 0.02,
}  # fmt: skip
SPEC: dict[str, Any] = {
    "workload": {
        "name": "load-data",
        "phases": [{"name": "load", "kind": "load_data"}],
        "metrics": {
            "throughput": {
                "title": "rows a second",
                "unit": "rows/s",
                "direction": "higher",
                "numerator": ["rows"],
                "denominator": ["load_duration_s"],
                "primary": True,
            }
        },
    },
    "factors": [{"name": "server", "levels": ["a", "b"], "aliases": {}}],
    "compare": {"factor": "server", "base": "a"},
    "design": {"kind": "fixed", "blocks": 2},
    "configurations": {},
    "parameters": {},
}


@dataclass(frozen=True)
class Begun:
    """The records with which a run begins."""

    run: RunRecord
    treatments: tuple[TreatmentRecord, ...]
    trials: tuple[TrialRecord, ...]


def begun(run_id: str = "study-1", *, blocks: int = 2, **changes: Any) -> Begun:
    """Return a run of two treatments."""
    run = RunRecord(
        id=run_id,
        digest="digest",
        name="study",
        title="A study",
        scale="smoke",
        created_utc=NOW,
        seed=7,
        blocks=blocks,
        margin=0.02,
        host=HostRecord("host", HostFacts.model_validate({"cpu": {"threads": 2}})),
        versions={"millrace": "0.1.0"},
        spec=RunSpec.model_validate({**SPEC, "design": {"kind": "fixed", "blocks": blocks}}),
        experiment_text="[experiment]\n",
    )
    treatments = tuple(
        TreatmentRecord(f"t-{level}", position, {"server": level}, {"server": level})
        for position, level in enumerate("ab")
    )
    trials = tuple(
        TrialRecord(f"{run_id}/{block}-{treatment.id}", treatment.id, block, 2 * block + position)
        for block in range(blocks)
        for position, treatment in enumerate(treatments)
    )
    return Begun(replace(run, **changes), treatments, trials)


def result(*, port: str = "3306", log: bytes = b"ready for connections\n") -> AttemptResult:
    """Return the result of a finished attempt."""
    server = ServerRecord(
        "mysql-5.7.22", "mysql", "5.7.22", "5.7.22-log", BuildFacts(libc="x"), ("port",)
    )
    options = (OptionRecord("innodb_flush_method", "O_DIRECT", "wmf", False),)
    effective = {"port": port, "innodb_buffer_pool_size": "134217728"}
    return AttemptResult(
        outcome="finished",
        steps=(StepRecord(0, "start", 0.0, 1.25, "finished"),),
        instances=(InstanceRecord("server", server, "wmf", options, effective),),
        measurements=(MeasurementRecord("load_duration_s", 3.5), MeasurementRecord("rows", 20_000)),
        artefacts=(NewArtefact("error_log", "server", log),),
    )


def histogram(name: str = "point-query") -> HistogramRecord:
    """Return a transaction's latencies; the store never decodes them."""
    return HistogramRecord("measure", "transaction", name, "service", "HISTFAAA", 20_000, 1.5)


def failed() -> AttemptResult:
    return AttemptResult("failed", failed_step="start", reason="it crashed", log_tail="signal 11\n")


def without_attempt_ids(stored: StoredRun) -> StoredRun:
    """Return the run without ids of attempts, which differ between stores."""
    return replace(stored, attempts=tuple(replace(each, id=0) for each in stored.attempts))


_numbers = st.floats(1e-20, 1e20) | st.floats(-1e20, -1e-20) | st.just(0.0)
_integers = st.integers(-(2**63) + 1, 2**63 - 1)
_names = st.text(min_size=1, max_size=8)
_titles = _names.filter(str.isprintable)
_histograms = st.builds(
    HistogramRecord,
    phase=_names,
    of=st.sampled_from(["transaction", "statement"]),
    name=_names,
    kind=st.sampled_from(["service", "response"]),
    encoded=st.binary(max_size=20).map(lambda content: b64encode(content).decode()),
    count=st.integers(0, 2**63 - 1),
    sum_s=st.just(0.0) | st.floats(1e-9, 1e12),
)
_artefacts = st.builds(NewArtefact, _names, _names, st.binary(max_size=20))
_json = st.recursive(
    st.none() | st.booleans() | _integers | _numbers | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=6,
)
_documents = st.dictionaries(_names, _json, max_size=3)
_texts = st.none() | st.text(max_size=8)
_host_facts = st.fixed_dictionaries(
    {}, optional={"libc": _texts, "mitigations": st.dictionaries(_names, _texts, max_size=3)}
)
_build_facts = st.fixed_dictionaries(
    {}, optional={"compiler": _texts, "changed_files": st.lists(_names, max_size=2)}
)
_facts = st.fixed_dictionaries(
    {}, optional={"snapshot": _texts, "state": st.fixed_dictionaries({"begin": _documents})}
)
_levels: st.SearchStrategy[Level] = st.text(max_size=12) | _integers | _numbers | st.booleans()
_factors = st.dictionaries(st.sampled_from(["replica.server", "scale"]), _levels).flatmap(
    lambda others: _levels.map(lambda server: {"server": server, **others})
)


_servers = st.builds(
    ServerRecord,
    name=_names,
    family=_names,
    version=_names,
    version_reported=_names,
    build=_build_facts.map(BuildFacts.model_validate),
    host_variables=st.lists(_names, max_size=3).map(tuple),
)


@st.composite
def _instances(draw: st.DrawFn, role: str) -> InstanceRecord:
    server = draw(_servers)
    names = st.sampled_from(["port", "version", *server.host_variables])
    options = st.builds(
        OptionRecord, _names, st.none() | _names, _names, st.booleans(), st.none() | _names
    )
    return InstanceRecord(
        role=role,
        server=server,
        configuration=draw(_names),
        options=tuple(draw(st.lists(options, max_size=2))),
        effective=draw(st.dictionaries(names, st.text(max_size=8), max_size=4)),
        facts=InstanceFacts.model_validate(draw(_facts)),
    )


@st.composite
def results(draw: st.DrawFn) -> AttemptResult:
    """Generate arbitrary results of an attempt."""
    outcomes: tuple[Outcome, ...] = ("finished", "failed", "interrupted")
    outcome = st.sampled_from(outcomes)
    steps = draw(st.lists(st.tuples(_names, _numbers, _numbers, outcome), max_size=3))
    measured = draw(st.dictionaries(st.tuples(_names, _names), _numbers, max_size=4))
    roles = draw(st.lists(_names, unique=True, max_size=2))
    return AttemptResult(
        outcome=draw(outcome),
        steps=tuple(StepRecord(position, *step) for position, step in enumerate(steps)),
        instances=tuple(draw(_instances(role)) for role in roles),
        measurements=tuple(
            MeasurementRecord(name, value, role) for (role, name), value in measured.items()
        ),
        failed_step=draw(st.none() | _names),
        reason=draw(st.none() | st.text(max_size=20)),
        log_tail=draw(st.none() | st.text(max_size=20)),
        artefacts=tuple(draw(st.lists(_artefacts, max_size=2))),
        histograms=tuple(draw(st.lists(_histograms, max_size=2))),
    )


@st.composite
def runs(draw: st.DrawFn) -> Begun:
    """Generate arbitrary runs: any factors and roles."""
    treatments = tuple(
        TreatmentRecord(f"t{position}", position, draw(_factors), draw(_factors))
        for position in range(draw(st.integers(1, 3)))
    )
    blocks = draw(st.integers(1, 2))
    trials = tuple(
        TrialRecord(f"run/{block}/{t.id}", t.id, block, block * len(treatments) + t.position)
        for block in range(blocks)
        for t in treatments
    )
    run = begun(
        "run",
        blocks=blocks,
        digest=draw(_names),
        name=draw(_titles),
        title=draw(st.text(max_size=20)),
        scale=draw(_titles),
        seed=draw(st.integers(0, 2**63 - 1)),
        margin=draw(st.floats(1e-6, 0.999)),
        host=HostRecord(draw(_names), HostFacts.model_validate(draw(_host_facts))),
        versions=draw(st.dictionaries(_names, st.text(max_size=8), max_size=2)),
        experiment_text=draw(st.text(max_size=40)),
        millrace_command=draw(st.text(max_size=20)),
    ).run
    return Begun(run, treatments, trials)


def begin(store: Store, what: Begun | str = "study-1", **changes: Any) -> Begun:
    """Begin a run, or the one that ``begun`` makes with this id and these changes."""
    if isinstance(what, str):
        what = begun(what, **changes)
    else:
        assert not changes
    store.begin_run(what.run, what.treatments, what.trials)
    return what


def claim(store: Store, trial_id: str, owner: Owner = OWNER) -> int:
    """Start an attempt, also of a trial that has failed; return its id."""
    attempt = store.claim(trial_id, owner, NOW, is_alive=alive, retry_failed=True)
    assert attempt is not None
    return attempt


def execute_attempt(store: Store, trial_id: str, ended: AttemptResult | None = None) -> int:
    """Claim a trial and end its attempt, with an ordinary result if none is given."""
    attempt = claim(store, trial_id)
    store.finish(attempt, ended or result(), LATER)
    return attempt
