"""Test when the process list is read."""

from itertools import pairwise

from millrace.collect.server_totals import MOST_QUERIES, gap_s


def test_queries_are_a_second_apart_at_first_and_then_ever_more() -> None:
    queries = [0.0]
    for _ in range(MOST_QUERIES):
        queries.append(queries[-1] + gap_s(queries[-1]))
    gaps = [later - earlier for earlier, later in pairwise(queries)]
    assert queries[1:5] == [1.0, 2.0, 3.0, 4.0]
    assert min(gaps) == 1.0
    assert gaps == sorted(gaps)
    assert 120 < queries[-1] < 180
