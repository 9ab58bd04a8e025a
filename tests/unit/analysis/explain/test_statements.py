"""Test the time of each statement, by the client's clock and by the server's digests."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.statements import compare_statements, normalised
from tests.support.known import known
from tests.support.observed_trials import Scene, Truth, histogram, seen

TABLES = ("sbtest{n}",)

# Statements with values, and their digests as servers reported them.
DIGESTS = [
    ("SELECT c FROM sbtest3 WHERE id=4711", "SELECT `c` FROM `sbtest1` WHERE `id` = ? "),
    (
        "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 1 AND 100 ORDER BY c",
        "EXECUTE SELECT DISTINCTROW `c` FROM `sbtest1` WHERE `id` BETWEEN ? AND ? ORDER BY `c`",
    ),
    (
        "INSERT INTO sbtest1 (id, k, c, pad) VALUES (0, 12, 'it''s', \"a\\\"b\")",
        "INSERT INTO `sbtest1` ( `id` , `k` , `c` , `pad` ) VALUES (...) ",
    ),
    (
        "INSERT INTO sbtest1 VALUES (1,2),(3,4),(5,6)",
        "INSERT INTO `sbtest1` VALUES (...) /* , ... */ ",
    ),
    ("UPDATE sbtest1 SET k=k+1 WHERE id=7", "UPDATE `sbtest2` SET `k` = `k` + ? WHERE `id` = ?"),
    ("SELECT k FROM sbtest1 WHERE k IN (1, 2)", "SELECT `k` FROM `sbtest1` WHERE `k` IN (...)"),
    ("select j from foo where i >= -1 limit 9", "SELECT `j` FROM `foo` WHERE `i` >= - ? LIMIT ?"),
    # The same as a prepared statement:
    ("SELECT c FROM `sbtest1` WHERE id = ?", "SELECT `c` FROM `sbtest1` WHERE `id` = ?"),
]


@pytest.mark.parametrize(("statement", "digest"), DIGESTS)
def test_a_statement_and_its_digest_are_the_same_text(statement: str, digest: str) -> None:
    assert normalised(statement, TABLES) == normalised(digest, TABLES)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT c FROM t WHERE id = 1", "SELECT c FROM t WHERE k = 1"),
        ("SELECT c FROM t1 WHERE id = 1", "SELECT c FROM t2 WHERE id = 1"),  # no numbered tables
        ("UPDATE t SET c = 1", "UPDATE t SET c = 1 WHERE id = 1"),
        ("SELECT c1 FROM t", "SELECT c2 FROM t"),
    ],
)
def test_other_statements_are_not(one: str, other: str) -> None:
    assert normalised(one, TABLES) != normalised(other, TABLES)


def digest(text: str, count: int, wait_s: float) -> dict[str, Any]:
    return {"text": text, "count": count, "wait_s": wait_s}


def trial(
    block: int,
    latencies: Mapping[str, tuple[float, float]],
    plans: Mapping[str, str] | None = None,
    digests: Sequence[Mapping[str, Any]] = (),
) -> ObservedTrial:
    """Return a trial; ``latencies`` are (times per transaction, µs) by statement."""
    scene, truth = Scene(), Truth()
    document = {
        **scene.document(truth),
        "plans": {name: {"sql": sql, "rows": [], "error": None}
                  for name, sql in (plans or {}).items()},
        "digests": list(digests),
    }  # fmt: skip
    made = scene.attempt(truth, document)
    operations = scene.operations(truth)
    made = replace(
        made,
        histograms=(
            *(h for h in made.histograms if h.of == "transaction"),
            *(histogram("statement", name, operations * times, us)
              for name, (times, us) in latencies.items()),
        ),
    )  # fmt: skip
    return ObservedTrial(f"trial-{block}", block, made, seen(made))


PLANS = {
    "point_select": "SELECT c FROM sbtest1 WHERE id=1",
    "index_update": "UPDATE sbtest1 SET k=k+1 WHERE id=1",
}


def test_each_statement_has_its_count_and_both_clocks() -> None:
    digests = [
        digest("SELECT `c` FROM `sbtest1` WHERE `id` = ?", 1000, 0.02),
        digest("SELECT `c` FROM `sbtest2` WHERE `id` = ?", 3000, 0.10),
        digest("COMMIT", 500, 0.05),
    ]
    latencies = {"BEGIN": (1, 20.0), "point_select": (10, 40.0), "index_update": (1, 90.0),
                 "COMMIT": (1, 150.0)}  # fmt: skip
    a = [trial(block, latencies, PLANS, digests) for block in range(2)]
    slower = {**latencies, "index_update": (1, 95.0)}
    b = [trial(block, slower, PLANS) for block in range(2)]
    found = {each.name: each for each in compare_statements(a, b, tables=TABLES)}
    assert list(found) == ["BEGIN", "point_select", "index_update", "COMMIT"]
    point = known(found["point_select"].a)
    assert point.per_operation == pytest.approx(10, rel=1e-4)
    assert point.latency.mean == pytest.approx(40)
    assert known(point.server).mean == pytest.approx(30)  # of both tables, by execution
    commit = known(found["COMMIT"].a)
    assert known(commit.server).mean == pytest.approx(100)
    update = found["index_update"]
    assert known(update.a).server is None  # no value is invented without a digest
    assert known(update.difference).mean == pytest.approx(5)
    assert known(update.b).server is None


def test_two_statements_of_one_text_share_no_digest() -> None:
    plans = {"one": "SELECT c FROM t WHERE id=1", "other": "SELECT c FROM t WHERE id=2"}
    digests = [digest("SELECT `c` FROM `t` WHERE `id` = ?", 10, 1.0)]
    a = [trial(0, {"one": (1, 10.0), "other": (1, 20.0)}, plans, digests)]
    for found in compare_statements(a, a):
        assert known(found.a).server is None


def test_a_statement_of_one_side_is_compared_with_nothing() -> None:
    found = compare_statements([trial(0, {"x": (1, 10.0)})], [trial(0, {"y": (1, 10.0)})])
    assert [(each.name, each.difference) for each in found] == [("x", None), ("y", None)]
    assert found[0].b is None
