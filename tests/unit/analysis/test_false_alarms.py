"""Check the rate of false alarms of the product's way to a verdict.

Variants that omit one of its precautions fail the same check.

The checked error rates are those of the interval excluding 1, so the margin is next to nothing.
Hosts drift from trial to trial; the seconds of a trial depend on each other.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import signal, stats

from benchmarks.trial_noise import DATA, Pool, drifting, pools
from millrace.analysis.compare.model import Verdict
from millrace.analysis.compare.verdict import decide, decide_interval
from millrace.stats.ratio import Looks, paired_ratio
from millrace.stats.sequential import FIRST_LOOK

ALPHA = 0.05
NO_MARGIN = 1e-9
BLOCKS = 16
SECONDS = 30
DIFFERENT = ("regression", "improvement")

Array = NDArray[np.float64]


class Host(Protocol):
    """A host that executes trials one after the other."""

    def trial(self, log_ratio: float) -> Array:
        """Return logarithms of a trial's seconds, of a treatment that is faster by this factor."""
        ...


@dataclass
class MadeHost:
    """A simulated host.

    It has a drift of 3 % over tens of trials, heavy-tailed trials and autocorrelated seconds."""

    source: np.random.Generator
    drift: float = 0.0

    def trial(self, log_ratio: float) -> Array:
        self.drift = 0.97 * self.drift + 0.03 * (1 - 0.97**2) ** 0.5 * self.source.standard_normal()
        of_trial = 0.007 * self.source.standard_t(3)
        steps = 0.03 * (1 - 0.8**2) ** 0.5 * self.source.standard_normal(SECONDS + 50)
        seconds = signal.lfilter([1.0], [1.0, -0.8], steps)[50:]
        return np.asarray(log_ratio + self.drift + of_trial + seconds)


class RecordedHost:
    """A recorded host: a trial is a restart of a benchmark; the host drifts by twice its noise."""

    def __init__(self, pool: Pool, source: np.random.Generator) -> None:
        self.pool, self.source = pool, source
        self.drift = iter(drifting(pool, source, (1, 2 * BLOCKS), (2.0, 0.97))[0])

    def trial(self, log_ratio: float) -> Array:
        fork = self.pool.forks[self.source.integers(len(self.pool.forks))]
        return np.asarray(log_ratio + next(self.drift) + fork)


Trials = tuple[list[Array], list[Array]]  # of the base and of the candidate, block by block
Procedure = Callable[[Host, float, np.random.Generator], Verdict | None]


def in_turns(host: Host, log_ratio: float, source: np.random.Generator) -> Iterator[Trials]:
    """Yield the data after each block: a trial of both in random order."""
    trials: Trials = ([], [])
    for _ in range(BLOCKS):
        for side in source.permutation(2):
            trials[side].append(host.trial(log_ratio * side))
        yield trials


def by_blocks(trials: Trials, looks: Looks) -> Verdict | None:
    """Apply the product's rule to one value per trial."""
    base, candidate = ([float(np.exp(seconds).mean()) for seconds in side] for side in trials)
    estimate = paired_ratio(base, candidate, confidence=1 - ALPHA, looks=looks)
    return decide(estimate, "higher", NO_MARGIN)[0]


def stopping(trials_so_far: Iterable[Trials], looks: Looks) -> Verdict | None:
    """Return the verdict at the first look that calls a difference, or at the last."""
    verdict: Verdict | None = None
    for trials in trials_so_far:
        if len(trials[0]) >= FIRST_LOOK:
            verdict = by_blocks(trials, looks)
        if verdict in DIFFERENT:
            break
    return verdict


def product(host: Host, log_ratio: float, source: np.random.Generator) -> Verdict | None:
    return stopping(in_turns(host, log_ratio, source), "any")


def peeking(host: Host, log_ratio: float, source: np.random.Generator) -> Verdict | None:
    """Look after every block with the interval for one look."""
    return stopping(in_turns(host, log_ratio, source), "once")


def pooling_seconds(host: Host, log_ratio: float, source: np.random.Generator) -> Verdict | None:
    """Look once at the end, treating every second of all trials as independent evidence."""
    *_, trials = in_turns(host, log_ratio, source)
    base, candidate = (np.concatenate(side) for side in trials)
    found = stats.ttest_ind(candidate, base, equal_var=False)
    low, high = found.confidence_interval(1 - ALPHA)
    ratio, *ends = np.exp([candidate.mean() - base.mean(), low, high])
    return decide_interval(ratio, ends[0], ends[1], "higher", NO_MARGIN)[0]


def base_first(host: Host, log_ratio: float, source: np.random.Generator) -> Verdict | None:
    """Run all trials of the base, then all of the candidate; otherwise do as the product does."""
    base = [host.trial(0.0) for _ in range(BLOCKS)]
    candidate = [host.trial(log_ratio) for _ in range(BLOCKS)]
    pairs = ((base[:n], candidate[:n]) for n in range(1, BLOCKS + 1))
    return stopping(pairs, "any")


def keeps_its_error_rate(procedure: Procedure, hosts: Sequence[Host]) -> bool:
    """Return whether the number of called differences, where there is none, fits ``ALPHA``.

    The limit is the 99th percentile of the binomial distribution.
    """
    source = np.random.default_rng(22)
    verdicts = (procedure(host, 0.0, source) for host in hosts)
    alarms = (verdict for verdict in verdicts if verdict in DIFFERENT)
    most = int(stats.binom.ppf(0.99, len(hosts), ALPHA))
    return next(islice(alarms, most, None), None) is None  # what fails does so early


@pytest.fixture(params=["made", "recorded"])
def hosts(request: pytest.FixtureRequest) -> list[Host]:
    """Yield fresh hosts for each procedure, the same for all."""
    source = np.random.default_rng(21)
    if request.param == "made":
        return [MadeHost(source.spawn(1)[0]) for _ in range(200)]
    if not DATA.exists():
        pytest.skip(f"recorded noise is not on this machine: {DATA.name}")
    return [RecordedHost(pool, source.spawn(1)[0]) for pool in pools()]


def test_the_product_keeps_its_error_rate(hosts: list[Host]) -> None:
    assert keeps_its_error_rate(product, hosts)


@pytest.mark.parametrize("mutation", [pooling_seconds, peeking, base_first])
def test_without_one_of_its_precautions_it_would_not(
    mutation: Procedure, hosts: list[Host]
) -> None:
    assert not keeps_its_error_rate(mutation, hosts)


def test_the_product_sees_what_is_there() -> None:
    """Show that the product does not pass by finding nothing."""
    source = np.random.default_rng(23)
    made = [MadeHost(source.spawn(1)[0]) for _ in range(40)]
    found = [product(host, np.log(0.9), source) for host in made]
    assert found.count("regression") >= 36
    assert "improvement" not in found
