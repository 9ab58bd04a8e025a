"""Test which likely causes a run's summary names, and what cannot be explained."""

from dataclasses import replace
from pathlib import Path

import pytest

from millrace.analysis.certainty import Certainty
from millrace.analysis.compare.model import FirstCause
from millrace.analysis.explain.causes.model import Kind, LikelyCause
from millrace.app.explain import Selection, explain_run, first_causes
from millrace.errors import UserError
from tests.support.explained import explained_study, study_run
from tests.support.observed_store import keep


def cause(
    kind: Kind, about: str, share: float | None = 0.5, certainty: Certainty = Certainty.LIKELY
) -> LikelyCause:
    us = None if share is None else 10.0 * share
    return LikelyCause(
        kind=kind, about=about, sentence=about, evidence=(), us=us, share=share, certainty=certainty
    )


CPU = cause("cpu", "CPU time", 0.9)
GROUP = cause("cpu", "parsing", 0.8)
QUEUE_FOR_CPUS = cause("cpu", "queue for CPUs", 0.8)
MORE_CPU = "more CPU in the server (user code)"
BUILD = cause("build", "compiler", 0.9)
LOG = cause("option", "binary log")
PURGE = cause("option", "purge", certainty=Certainty.POSSIBLE)
FACT = cause("option", "logs of statements", None, Certainty.FACT)


@pytest.mark.parametrize(
    ("causes", "named"),
    [
        ((), None),
        ((LOG, FACT), "binary log"),
        ((CPU, BUILD, LOG), MORE_CPU),
        ((GROUP, LOG), MORE_CPU),
        ((CPU, PURGE), MORE_CPU),
        ((LOG, CPU), "binary log"),
        ((CPU, cause("option", "binary log", certainty=Certainty.SHOWN)), "binary log"),
        ((PURGE, CPU), "purge"),
        ((PURGE, cause("option", "spinning", certainty=Certainty.POSSIBLE), CPU), None),
        ((QUEUE_FOR_CPUS, LOG), "queue for CPUs"),
        ((cause("cpu", "CPU time", None, Certainty.FACT), FACT), "logs of statements"),
        ((BUILD, LOG), "binary log"),
        ((BUILD, PURGE), None),
        ((cause("option", "table cache", 0.05), FACT), "logs of statements"),
        ((cause("option", "TLS", None, Certainty.FACT_AGAINST), FACT), "logs of statements"),
        ((replace(LOG, may_be_most=False), FACT), "logs of statements"),
        ((cause("environment", "other processes", -0.4), LOG), "other processes"),
    ],
)
def test_the_first_cause_that_names_something(
    causes: tuple[LikelyCause, ...], named: str | None
) -> None:
    stored, explanation = study_run(), replace(explained_study(), likely_causes=causes)
    found = first_causes(stored, [explanation])
    assert [each.about for each in found.values()] == ([] if named is None else [named])


def test_functions_are_named_when_cpu_time_makes_most_of_the_difference() -> None:
    study = replace(explained_study(), likely_causes=(LOG, CPU))
    (found,) = first_causes(study_run(), [study]).values()
    assert study.profile is not None
    names = [each.name for each in study.profile.leading]
    assert names[0] == "Sql_cmd_insert_values::execute_inner(THD*)"
    assert list(found.functions) == names
    us, share = found.functions[names[0]]
    assert us == pytest.approx(8.5, abs=0.1)
    assert share == pytest.approx(0.57, abs=0.01)


def test_no_function_is_named_when_the_difference_is_a_wait() -> None:
    study = replace(explained_study(), likely_causes=(LOG,))
    assert study.differences is not None
    latency = replace(study.differences.latency, mean=100.0)
    waits = replace(study, differences=replace(study.differences, latency=latency))
    (found,) = first_causes(study_run(), [waits]).values()
    assert not found.functions


def test_it_is_that_of_the_two_treatments() -> None:
    stored, explanation = study_run(), replace(explained_study(), likely_causes=(FACT,))
    explanation = replace(explanation, profile=None)
    ((ids, found),) = first_causes(stored, [explanation]).items()
    levels = {each.id: each.levels for each in stored.treatments}
    assert [levels[each] for each in ids] == [explanation.a.levels, explanation.b.levels]
    assert found == FirstCause("logs of statements", {}, Certainty.FACT)


def test_a_run_without_a_finished_trial_is_to_be_continued(tmp_path: Path) -> None:
    store = keep(replace(study_run(), attempts=()), tmp_path / "results.sqlite")
    with pytest.raises(UserError, match=r"no trial of run .* has finished") as raised:
        explain_run(store, "latest", Selection())
    assert "resumes" in (raised.value.hint or "")
