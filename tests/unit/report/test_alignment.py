"""How the share of settings is told."""

from __future__ import annotations

from millrace.analysis.alignment import ALL, Alignments, GivenBack
from millrace.analysis.metrics import Metric
from millrace.report.alignment import sentences
from millrace.stats import MeanEstimate

RATE = Metric("rate", "transactions per second", "1/s", "higher", ("n",), (), True)

A, B = "mysql-5.6", "mysql-9.7"


def share(mean: float) -> MeanEstimate:
    return MeanEstimate(mean, mean - 0.01, mean + 0.01, 5, 0.95, 0.01)


def test_one_setting_and_what_remains() -> None:
    found = Alignments(RATE, share(0.14), (GivenBack("binary log", share(0.09)),), share(0.05))
    answer, *lines = sentences(found, base=A, candidate=B)
    assert answer == (
        f"of the 14 % loss of {B} against {A} in transactions per second, "
        "9 are binary log; 5 remain"
    )
    assert lines == [
        "loss: +14.0 % (+13.0 to +15.0, 5 blocks)",
        "binary log, aligned: +9.0 % (+8.0 to +10.0, 5 blocks) given back",
        "remaining: +5.0 % (+4.0 to +6.0, 5 blocks)",
    ]


def test_several_settings_need_not_add_up() -> None:
    parts = (
        GivenBack("binary log", share(0.09)),
        GivenBack("checksums", share(0.04)),
        GivenBack(ALL, share(0.11)),
    )
    said = sentences(Alignments(RATE, share(0.14), parts, share(0.03)), base="A", candidate="B")
    assert said[0].endswith("9 are binary log, 4 are checksums; 3 remain")
    assert said[4].startswith("all of these, aligned together: +11.0 %")
    assert "need not add up" in said[-1]


def test_a_single_block_has_no_interval() -> None:
    lone = MeanEstimate(0.1, None, None, 1, 0.95, None)
    found = Alignments(RATE, lone, (GivenBack("binary log", lone),), lone)
    assert "(one block: no interval)" in sentences(found, base="A", candidate="B")[1]
