"""Make the evidence of likely causes from the true times of an operation of A and of B."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from millrace.analysis.explain.causes.evidence import Evidence, SideEvidence
from millrace.analysis.explain.causes.model import LikelyCause
from millrace.analysis.explain.causes.ranking import rank_causes
from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.plans import compare_plans
from millrace.analysis.explain.profiles import GroupDifference
from millrace.analysis.explain.time_breakdown import breakdown_difference, time_breakdown
from millrace.levels import Level
from millrace.model.instance_facts import InstanceFacts
from millrace.model.servers import BuildFacts
from millrace.stats.mean import mean_estimate
from millrace.store.records import InstanceRecord, OptionRecord, ServerRecord
from tests.support.observed_trials import Scene, Truth, seen

BLOCKS = 4
EXACT = Scene(rate_hz=1e6)
BUILD = {"allocator": "glibc", "libc": "glibc 2.36", "compiler": "GCC 12", "async_io": "libaio"}


@dataclass(frozen=True)
class Seen:
    """One treatment's observations: true operations, further sections, settings.

    ``counted`` are deltas of status variables of one operation; ``disturbed`` changes the section
    of the host from block to block, where it is a function."""

    truth: Truth = field(default_factory=Truth)
    counted: Mapping[str, float] = field(default_factory=dict)
    sections: Mapping[str, Any] = field(default_factory=dict)
    levels: Mapping[str, Level] = field(default_factory=dict)
    asked: Mapping[str, str] = field(default_factory=dict)
    effective: Mapping[str, str] = field(default_factory=dict)
    build: Mapping[str, str] = field(default_factory=lambda: BUILD)
    facts: Mapping[str, Any] = field(default_factory=dict)
    errors: float = 0.0


def host(**changed: Any) -> dict[str, Any]:
    """Return the section of a quiet host with two CPUs."""
    quiet = {
        "cpu": {"steal_s": 0.0, "user_s": 1.0},
        "cpus": 2,
        "pressure": {"memory_full_s": 0.0},
        "frequency_mhz": {"min": 3000.0, "mean": 3000.0, "max": 3000.0},
        "memory": {"available_bytes": 1e9, "swap_used_bytes": 0},
        "other_cpu_s": 0.01,
        "others": [],
        "disturbed": [],
    }
    return {**quiet, **changed}


def trials(
    side: Seen, scene: Scene, noise: np.random.Generator, noisy: Callable[[Truth], Truth]
) -> tuple[ObservedTrial, ...]:
    found = []
    for block in range(BLOCKS):
        truth = noisy(side.truth.times(1 + 0.002 * float(noise.standard_normal())))
        operations = scene.operations(truth)
        status = {name: each * operations for name, each in side.counted.items()}
        document = {
            **scene.document(truth),
            "host": host(),
            "status": {"deltas": status, "gauges": {}, "metrics": {}},
            **side.sections,
        }
        made = scene.attempt(truth, document)
        values = tuple(
            replace(m, value=side.errors * operations) if m.name == "errors" else m
            for m in made.measurements
        )
        made = replace(made, measurements=values)
        found.append(ObservedTrial(f"trial-{block}", block, made, seen(made, scene.clients)))
    return tuple(found)


def side(name: str, seen_side: Seen, found: tuple[ObservedTrial, ...]) -> SideEvidence:
    options = tuple(OptionRecord(key, value, "mine", optional=False)
                    for key, value in seen_side.asked.items())  # fmt: skip
    build = BuildFacts.model_validate(seen_side.build)
    server = ServerRecord(name, "mysql", "8.0.33", "8.0.33", build)
    instance = InstanceRecord(
        "server",
        server,
        "mine",
        options,
        seen_side.effective,
        InstanceFacts.model_validate(seen_side.facts),
    )
    return SideEvidence(name, seen_side.levels, instance, found)


def case(
    a: Seen,
    b: Seen,
    *,
    scene: Scene = EXACT,
    groups: Mapping[str, tuple[float, float]] | None = None,
    unequal: str = "",
    seed: int = 1,
    noisy: Callable[[Truth], Truth] = lambda truth: truth,
) -> Evidence:
    """Return the evidence of A and B.

    ``groups`` are CPU times of groups of functions in A and B; ``noisy`` turns a truth into one
    trial's.
    """
    noise = np.random.default_rng(seed)
    of_a, of_b = (trials(each, scene, noise, noisy) for each in (a, b))
    account_a, account_b = time_breakdown(of_a), time_breakdown(of_b)
    assert account_a is not None
    assert account_b is not None
    different = breakdown_difference(account_a, account_b)
    assert different is not None
    return Evidence(
        a=side("A", a, of_a),
        b=side("B", b, of_b),
        noun="transaction",
        differences=different,
        groups=tuple(
            GroupDifference(
                name=name,
                title=name,
                kernel=False,
                a_us=one,
                b_us=other,
                a_foreground_us=one,
                b_foreground_us=other,
                difference=mean_estimate([(other - one) * factor for factor in (0.99, 1, 1.01)]),
                adjusted_p=0.001,
                significant=True,
            )
            for name, (one, other) in (groups or {}).items()
        ),
        plans=compare_plans(of_a, of_b),
        unequal=unequal,
        margin=0.02,
    )


def suspects(a: Seen, b: Seen, **more: Any) -> tuple[LikelyCause, ...]:
    return rank_causes(case(a, b, **more))


def named(found: Sequence[LikelyCause]) -> list[tuple[str, str]]:
    return [(each.kind, each.about) for each in found]


def truth(
    *, cpu_user: float = 20.0, runnable: float = 2.0, wire: float = 15.0, **waits: float
) -> Truth:
    """Return the usual operation, with some parts changed; ``waits`` by their class."""
    return Truth(cpu_user=cpu_user, runnable=runnable, wire=wire, waits=waits)
