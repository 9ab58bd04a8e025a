"""Make transactions of several statements, as collectors observe them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from millrace.analysis.explain.observations import ObservedTrial
from tests.support.observed_trials import Scene, Truth, histogram, seen

CLIENTS = 4
GAP_US = 10.0


@dataclass(frozen=True)
class Asked:
    """A statement that a transaction sends this many ``times``.

    Each execution spends a time in each class of states, in µs, and further time that no collector
    sees.
    """

    times: int
    spent: Mapping[str, float]
    unseen: float = 0.0
    during_sync: float = 0.0  # share of the waits for a lock

    @property
    def latency(self) -> float:
        return math.fsum(self.spent.values()) + self.unseen


@dataclass(frozen=True)
class Look:
    """The number of looks at a class while a statement was under way."""

    statement: str | None
    state_class: str
    count: int
    seconds: float
    during_sync: int = 0


@dataclass(frozen=True)
class Seen:
    """The observations of a transaction: exact ones, or a number of looks that ``source`` draws."""

    asked: Mapping[str, Asked]
    looks: int = 1_000_000
    source: np.random.Generator | None = field(default=None, compare=False)
    scheduled: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def trial(self, block: int = 0) -> ObservedTrial:
        spent = [
            (name, state_class, each.times * us)
            for name, each in self.asked.items()
            for state_class, us in each.spent.items()
        ]
        gaps = GAP_US * sum(each.times for each in self.asked.values())
        spent.append(("", "network", gaps))
        whole = math.fsum(us for *_, us in spent)
        shares = np.asarray([us / whole for *_, us in spent])
        counts = (
            np.round(shares * self.looks).astype(int)
            if self.source is None
            else self.source.multinomial(self.looks, shares)
        )
        looks = [
            Look(
                name or None,
                state_class,
                int(count),
                0.001 * int(count),
                round(count * self.asked[name].during_sync) if state_class == "lock" else 0,
            )
            for (name, state_class, _), count in zip(spent, counts, strict=True)
        ]
        latencies = {name: (each.times, each.latency) for name, each in self.asked.items()}
        return trial(looks, latencies, block, cycle_us=whole, scheduled=self.scheduled)


def trial(
    looks: Sequence[Look],
    latencies: Mapping[str, tuple[float, float]],
    block: int = 0,
    *,
    cycle_us: float = 100.0,
    result: Mapping[str, Any] | None = None,
    scheduled: Mapping[str, tuple[int, int]] | None = None,
) -> ObservedTrial:
    """Return a trial.

    ``latencies`` are (times in a transaction, µs) by statement, ``scheduled`` looks at threads (on
    a CPU, ready).
    """
    scene = Scene(clients=CLIENTS)
    truth = Truth(cpu_user=cycle_us, cpu_system=0, runnable=0, wire=0, gap=0)
    document = scene.document(truth)
    states = [
        {
            "statement": each.statement,
            "class": each.state_class,
            "count": each.count,
            "seconds": each.seconds,
            "during_sync": each.during_sync,
        }
        for each in looks
        if each.count
    ]
    statements = {"threads": CLIENTS, "states": states} if result is None else result
    document["states"] = {**document["states"], "statements": statements}
    found = [
        {"statement": name, "on_cpu": on_cpu, "ready": ready}
        for name, (on_cpu, ready) in (scheduled or {}).items()
    ]
    document["switches"] = {"threads": [], "statements": found}
    operations = scene.operations(truth)
    made = scene.attempt(truth, document)
    made = replace(
        made,
        histograms=(
            histogram("transaction", "t", operations, cycle_us),
            *(
                histogram("statement", name, times * operations, us)
                for name, (times, us) in latencies.items()
            ),
        ),
    )
    return ObservedTrial(f"trial-{block}", block, made, seen(made, CLIENTS))


TRANSACTION = {
    "BEGIN": Asked(1, {"running": 4.0, "network": 6.0}),
    "select": Asked(10, {"running": 30.0, "data_read": 8.0, "page_fault": 2.0, "network": 9.0}),
    "update": Asked(1, {"running": 25.0, "lock": 60.0, "network": 9.0}),
    "COMMIT": Asked(
        1, {"running": 10.0, "lock": 40.0, "log_flush": 90.0, "network": 9.0}, during_sync=0.75
    ),
}
