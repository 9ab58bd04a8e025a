"""Test the report on the share of settings."""

from dataclasses import replace

import pytest

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.explain.ablation import ALL, Ablation, Recovery
from millrace.report.explanation.ablation import ablation_sentences, sentences
from millrace.stats.mean import MeanEstimate
from tests.support.explained import explained_study, explained_text
from tests.support.reports import one_line

RATE = Metric(
    name="rate", title="transactions per second", unit="1/s", direction="higher", numerator=("n",)
)

A, B = "mysql-5.6", "mysql-9.7"


def share(mean: float, half: float = 0.01) -> MeanEstimate:
    return MeanEstimate(mean, mean - half, mean + half, 5, 0.95, 0.01)


def binary_log(loss: float, given: float) -> Ablation:
    """Return one ablation that recovers this share of the loss."""
    part = Recovery("binary log", share(given, 0.01), share(loss - given, 0.01))
    return Ablation(RATE, share(loss), (part,))


def answer(found: Ablation) -> str:
    return sentences(found, base="A", candidate="B")[0]


def test_one_setting_and_what_remains() -> None:
    answer, *lines = sentences(binary_log(0.14, 0.09), base=A, candidate=B)
    assert answer == (
        f"of the 14 % loss of {B} against {A} in transactions per second, "
        "9 are binary log; 5 remain"
    )
    assert lines == [
        "loss: +14.0 % (+13.0 to +15.0, 5 blocks)",
        "binary log, aligned: +9.0 % (+8.0 to +10.0, 5 blocks) given back",
        "remaining: +5.0 % (+4.0 to +6.0, 5 blocks)",
    ]


@pytest.mark.parametrize(
    ("loss", "given", "result"),
    [
        (0.14, 0.09, "of the 14 % loss of B against A in"),
        (0.14, -0.03, ", aligning binary log made it worse by 3; 17 remain"),
        (0.14, 0.16, ", binary log gives back 16, more than was lost; nothing remains: B is then"),
        (0.14, 0.16, "; nothing remains: B is then 2 % better"),
        (0.14, 0.145, ", 14.5 are binary log; nothing remains (not sure)"),
        (0.14, 0.135, ", 13.5 are binary log; 0.5 remain (not sure)"),
        (0.14, 0.004, ", 0.4 are binary log (not sure); 13.6 remain"),
        (0.14, -0.004, ", aligning binary log made it worse by 0.4 (not sure); 14.4 remain"),
        (0.005, 0.09, "of the 0.5 % loss (not sure) of B"),
        (-0.14, -0.09, "of the 14 % gain of B against A in"),
        (-0.14, -0.09, ", 9 are binary log; 5 remain"),
        (-0.14, 0.03, ", aligning binary log added 3 to it; 17 remain"),
        (-0.14, -0.16, ", binary log takes 16, more than was gained; nothing remains: B is then"),
        (-0.14, -0.16, "; nothing remains: B is then 2 % worse"),
    ],
)
def test_answer_has_direction_and_certainty_of_a_share(
    loss: float, given: float, result: str
) -> None:
    assert result in answer(binary_log(loss, given))


def test_several_settings_need_not_add_up() -> None:
    parts = (
        Recovery("binary log", share(0.09), share(0.05)),
        Recovery("checksums", share(0.04), share(0.1)),
        Recovery(ALL, share(0.11), share(0.03)),
    )
    said = sentences(Ablation(RATE, share(0.14), parts), base="A", candidate="B")
    assert said[0].endswith("9 are binary log, 4 are checksums; 3 remain")
    assert said[4].startswith("all of these, aligned together: +11.0 %")
    assert said[5].startswith("remaining with all aligned: +3.0 %")
    assert "need not add up" in said[-1]
    apart = sentences(Ablation(RATE, share(0.14), parts[:2]), base="A", candidate="B")
    assert "4 are checksums; what remains" in apart[0]
    assert [line.partition(":")[0] for line in apart[4:6]] == [
        "remaining with binary log aligned",
        "remaining with checksums aligned",
    ]


def test_a_single_block_has_no_interval() -> None:
    lone = MeanEstimate(0.1, None, None, 1, 0.95, None)
    found = Ablation(RATE, lone, (Recovery("binary log", lone, lone),))
    said = sentences(found, base="A", candidate="B")
    assert "10 are binary log (one block); 10 remain (one block)" in said[0]
    assert "(one block: no interval)" in said[1]


def test_sentences_name_untried_and_left_out_settings() -> None:
    found = replace(
        binary_log(0.14, 0.09),
        run_id="study-2",
        left_out=("compiler: of the build",),
        untried=("checksums: failed at start: ended",),
    )
    said = ablation_sentences(replace(explained_study(), ablation=found))
    assert said[-3:] == (
        "could not be tried: checksums: failed at start: ended",
        "not aligned: compiler: of the build",
        "measured by run study-2",
    )
    assert ablation_sentences(explained_study()) == ()


def test_terminal_has_only_the_answer_among_many_comparisons() -> None:
    tested = replace(explained_study(), ablation=binary_log(0.14, 0.09))
    text = one_line(explained_text([tested] * 5))
    assert text.count("9 are binary log; 5 remain") == 5
    assert "given back" not in text
