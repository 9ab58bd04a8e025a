"""Compare the latency of each statement, by the client's clock and by the server's own.

The server's time is what its Performance Schema says of a statement's digest, which is matched by
its text without values. It is not known where two statements have the same text, or no digest has
it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.analysis.explain.observations import US_PER_S, ObservedTrial
from millrace.model.observations import Digest, QueryPlan
from millrace.stats.mean import MeanEstimate, mean_estimate

_COMMENT = re.compile(r"/\*.*?\*/|(?:--\s|#)[^\n]*", re.DOTALL)
_LITERAL = re.compile(
    r"""(?:\b[nxb])?'(?:[^'\\]|''|\\.)*' | "(?:[^"\\]|""|\\.)*"
    | (?<![\w`$?.]) (?: 0x[0-9a-f]+ | (?: \d+(?:\.\d*)? | \.\d+ ) (?:e[-+]?\d+)? ) (?![\w$])""",
    re.VERBOSE | re.DOTALL,
)
_PREPARED = re.compile(r"^\s*execute\s+(?=\w)")  # some digests say how it was sent
_SYNONYM = re.compile(r"\bdistinctrow\b")
_SPACE = re.compile(r"\s+")
_AROUND = re.compile(r"\s*([-+*/%(),.=<>!|&^;?])\s*")
_SIGN = re.compile(r"(?<=[(,=<>\x20?])-(?=\?)")
_LIST = re.compile(r"\((?:\?|\.\.\.)(?:,(?:\?|\.\.\.))*\)")
_ROWS = re.compile(r"\(\?\)(?:,\(\?\))+")
OWN = ("BEGIN", "COMMIT", "ROLLBACK")
"""The statements of the load generator, which no workload defines."""


@dataclass(frozen=True)
class StatementSide:
    """A statement in one treatment, in µs: the client's mean latency, and the server's time.

    ``per_operation`` is how often a transaction sent it; ``server`` is None where it is not known.
    """

    per_operation: float
    latency: MeanEstimate
    server: MeanEstimate | None


@dataclass(frozen=True)
class StatementComparison:
    """A statement in A and B; ``difference`` is of its latency over common blocks, in µs."""

    name: str
    a: StatementSide | None
    b: StatementSide | None
    difference: MeanEstimate | None


def compare_statements(
    a: Sequence[ObservedTrial], b: Sequence[ObservedTrial], *, tables: Sequence[str] = ()
) -> tuple[StatementComparison, ...]:
    """Return each statement of the clients, in the order in which they were recorded.

    ``tables`` are names of tables as the workload has them: ``sbtest{n}`` stands for all of them.
    """
    sides = [_sides(trials, tables) for trials in (a, b)]
    names = dict.fromkeys(name for side in sides for name in side)
    latencies = [{trial.block: _latencies_us(trial) for trial in trials} for trials in (a, b)]
    return tuple(
        StatementComparison(
            name,
            sides[0].get(name),
            sides[1].get(name),
            _difference(latencies[0], latencies[1], name),
        )
        for name in names
    )


def normalised(sql: str, tables: Sequence[str] = ()) -> str:
    """Return a statement or a digest without values, quotes, case and space, to be compared."""
    text = _COMMENT.sub(" ", sql).replace("`", "").lower()
    text = _SYNONYM.sub("distinct", _PREPARED.sub("", _LITERAL.sub("?", text)))
    for table in tables:
        if "{n}" in table:
            before, _, after = table.lower().partition("{n}")
            numbered = rf"\b{re.escape(before)}\d+{re.escape(after)}\b"
            text = re.sub(numbered, table.lower().replace("{n}", "#"), text)
    text = _AROUND.sub(r"\1", _SPACE.sub(" ", text)).strip().rstrip(";")
    text = _LIST.sub("(?)", _SIGN.sub("", text))
    return _ROWS.sub("(?)", text)


def _sides(trials: Sequence[ObservedTrial], tables: Sequence[str]) -> dict[str, StatementSide]:
    latencies: dict[str, list[float]] = {}
    shares: dict[str, list[float]] = {}
    served: dict[str, list[float]] = {}
    for trial in trials:
        records = [
            h for h in trial.attempt.histograms if h.of == "statement" and h.kind == "service"
        ]
        for record in records:
            if record.count:
                share = record.count / trial.observed.work.operations
                latencies.setdefault(record.name, []).append(US_PER_S * record.sum_s / record.count)
                shares.setdefault(record.name, []).append(share)
        for name, us in _served_us(trial, [record.name for record in records], tables).items():
            served.setdefault(name, []).append(us)
    return {
        name: StatementSide(
            sum(shares[name]) / len(shares[name]),
            mean_estimate(values),
            mean_estimate(served[name]) if name in served else None,
        )
        for name, values in latencies.items()
    }


def _served_us(
    trial: ObservedTrial, names: Sequence[str], tables: Sequence[str]
) -> dict[str, float]:
    """Return the server's own time of one execution, by statement, where it is known."""
    texts = {
        name: normalised(text, tables)
        for name in names
        if (text := _text(trial.observed.plans, name)) is not None
    }
    by_text: dict[str, list[Digest]] = {}
    for digest in trial.observed.digests:
        if digest.text and digest.count:
            by_text.setdefault(normalised(digest.text, tables), []).append(digest)
    alone = [name for name, text in texts.items() if list(texts.values()).count(text) == 1]
    return {
        name: US_PER_S
        * sum(digest.wait_s for digest in found)
        / sum(digest.count or 0 for digest in found)
        for name in alone
        if (found := by_text.get(texts[name]))
    }


def _text(plans: Mapping[str, QueryPlan], name: str) -> str | None:
    known = plans[name].sql if name in plans else None
    return known or (name if name in OWN else None)


def _latencies_us(trial: ObservedTrial) -> dict[str, float]:
    return {
        h.name: US_PER_S * h.sum_s / h.count
        for h in trial.attempt.histograms
        if h.of == "statement" and h.kind == "service" and h.count
    }


def _difference(
    a: Mapping[int, Mapping[str, float]], b: Mapping[int, Mapping[str, float]], name: str
) -> MeanEstimate | None:
    found = [
        b[block][name] - a[block][name]
        for block in sorted(a.keys() & b.keys())
        if name in a[block] and name in b[block]
    ]
    return mean_estimate(found) if found else None
