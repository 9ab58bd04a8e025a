"""Test the list of servers, and the experiment of a search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.campaign.policies import bisect
from millrace.errors import UserError
from millrace.experiment.plan import digest
from tests.support.experiment_files import CONTEXT, SMALL, parsed

A, B, C = "mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.12"


@given(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8), st.data())
def test_the_list_goes_from_good_to_bad(among: list[str], data: st.DataObject) -> None:
    good, bad = data.draw(st.permutations("abcdefgh"))[:2]
    found = bisect.servers_between(good, bad, among)
    assert (found[0], found[-1]) == (good, bad)
    assert len(set(found)) == len(found)
    assert set(found) <= {*among, good, bad}
    inner = [name for name in among if name in found[1:-1]]
    assert list(found[1:-1]) in (inner, inner[::-1])


def test_servers_beyond_the_ends_are_left_out() -> None:
    assert bisect.servers_between("b", "d", ["a", "b", "c", "d", "e"]) == ("b", "c", "d")
    assert bisect.servers_between("d", "b", ["a", "b", "c", "d", "e"]) == ("d", "c", "b")
    assert bisect.servers_between("x", "c", ["a", "b", "c", "d"]) == ("x", "a", "b", "c")


@pytest.mark.parametrize(
    ("good", "bad", "among", "said"),
    [("a", "a", ["b"], "both a"), ("a", "b", ["c", "d", "c"], "c more than once")],
)
def test_lists_that_make_no_sense(good: str, bad: str, among: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        bisect.servers_between(good, bad, among)


def test_a_server_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"did you mean 'mysql-5\.7\.22'"):
        bisect.refuse_unknown(["mysql-5.7.2"], CONTEXT.servers)


@pytest.mark.parametrize(("workload", "of"), [("updates", "updates"), ("point-query", "sysbench")])
def test_a_workload_or_a_test_is_an_experiment(workload: str, of: str) -> None:
    made = parsed(bisect.experiment_text(workload, [A, B]))
    assert made.workload["name"] == of
    experiment = bisect.bisection_experiment(
        made, [A, B, C], workload=workload, options={"sync_binlog": 1}, confidence=0.95
    )
    plan = bisect.member_plan(experiment, B, seed=1, block=3)
    (trial,) = plan.trials
    assert (trial.block, trial.position) == (3, 3)
    assert trial.treatment.resolved["server"] == B
    assert trial.treatment.levels["options.sync_binlog"] == 1
    if workload == "point-query":
        assert trial.treatment.levels["test"] == "point-query"
    assert experiment.campaign.bisects is not None
    assert experiment.campaign.bisects.members == (A, B, C)
    assert experiment.name == f"bisect-{workload}"


def test_a_workload_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match=r"--workload updat: .*'updates'"):
        bisect.experiment_text("updat", [A, B])


def test_a_file_is_searched_with_its_own_levels() -> None:
    experiment = bisect.bisection_experiment(
        parsed(SMALL), [A, C], workload="x.toml", options={}, confidence=0.9
    )
    assert experiment.factors[0].levels == (A, C)
    assert experiment.name == "bisect-small"
    assert digest(experiment) != digest(parsed(SMALL))


def test_a_file_with_several_groups_is_refused() -> None:
    text = SMALL.replace("[compare]", 'engine = ["InnoDB", "MyISAM"]\n[compare]')
    with pytest.raises(UserError, match=r"several levels: engine \(2\)"):
        bisect.bisection_experiment(
            parsed(text), [A, C], workload="x.toml", options={}, confidence=0.9
        )
