"""Test `millrace explain` on a real store."""

import json
import shlex
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from millrace.analysis.explain.ablation import Ablation, Recovery
from millrace.analysis.explain.explanation import with_ablation
from millrace.app import explain
from millrace.app.explain import Selection, explain_levels, explanations_of_report
from millrace.cli import explain as command_module
from millrace.cli.explain import command
from millrace.cli.report import command as report
from millrace.errors import UserError
from millrace.model.observations import Observations
from millrace.model.run_spec import Ablates, Aligned
from millrace.report.explanation.sentences import command as shown_command
from millrace.stats.mean import MeanEstimate
from millrace.store.records import StoredRun, TreatmentRecord, TrialRecord
from tests.support.explained import SUSPECTS, explained_study, of_levels, study_run, unobserved
from tests.support.observed_store import keep
from tests.support.reports import Page, one_line
from tests.unit.report.explanation.test_ablation import RATE


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of one run: two servers, 1 and 16 clients, with everything observed."""
    return keep(study_run(clients=(1, 16)), tmp_path_factory.mktemp("store") / "results.sqlite")


def run(store: Path, *arguments: str) -> Result:
    return CliRunner().invoke(command, ["--store", str(store), *arguments])


def done(result: Result) -> Result:
    if result.exception is not None:
        raise result.exception
    assert result.exit_code == 0
    return result


def refused(store: Path, *arguments: str) -> UserError:
    """Return the error in which the command ends."""
    error = run(store, *arguments).exception
    assert isinstance(error, UserError)
    return error


def explained(store: Path, *arguments: str) -> list[dict[str, Any]]:
    """Return the explanations in the JSON that the command prints."""
    found: list[dict[str, Any]] = json.loads(done(run(store, *arguments, "--json")).stdout)[
        "explanations"
    ]
    return found


def reported(store: Path, *arguments: str) -> str:
    """Return the page that `millrace report` writes."""
    file = store.with_name("report.html")
    options = ("--store", str(store), "--format", "html", "--output", str(file))
    done(CliRunner().invoke(report, [*arguments, *options]))
    return file.read_text("utf-8")


def test_the_latest_run_is_explained(store: Path) -> None:
    text = done(run(store)).stdout
    assert "mysql-9.7.4 against mysql-5.6.24 (clients 1)" in text
    assert "mysql-9.7.4 against mysql-5.6.24 (clients 16)" in text
    assert "unaccounted" in text


def test_one_group_is_chosen(store: Path) -> None:
    text = done(run(store, "sysbench", "--where", "clients=16", "--test", "insert")).stdout
    assert "(clients 16)" in text
    assert "(clients 1)" not in text


def test_base_and_candidate_may_be_named(store: Path) -> None:
    found = explained(store, "--base", "mysql-9.7.4", "--candidate", "mysql-5.6.24")
    assert [each["a"]["label"] for each in found] == ["mysql-9.7.4"] * 2


def test_levels_of_another_factor_are_found(store: Path) -> None:
    found = explained(store, "--base", "1", "--candidate", "16")
    assert {each["factor"] for each in found} == {"clients"}
    assert found[0]["title"].startswith("clients 16 against clients 1 (")


def test_files_are_written_and_nothing_is_printed(store: Path, tmp_path: Path) -> None:
    files = {
        name: tmp_path / f"insert.{name}"
        for name in ("html", "flame-graph", "speedscope", "folded")
    }
    options = [text for name, path in files.items() for text in (f"--{name}", str(path))]
    result = done(run(store, "--where", "clients=1", *options))
    assert result.stdout == ""
    assert files["html"].read_text("utf-8").startswith("<!DOCTYPE html>")
    assert ElementTree.parse(files["flame-graph"]).getroot().tag.endswith("svg")
    assert len(json.loads(files["speedscope"].read_text("utf-8"))["profiles"]) == 2
    line = files["folded"].read_text("utf-8").splitlines()[0]
    assert all(weight.isdigit() for weight in line.rsplit(" ", 2)[1:])


@pytest.mark.parametrize("option", ["--html", "--flame-graph", "--speedscope", "--folded"])
def test_a_file_of_the_user_is_left_as_it_is(store: Path, tmp_path: Path, option: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\n', "utf-8")
    error = refused(store, "--where", "clients=1", option, str(file))
    assert f"another file with {option}" in (error.hint or "")
    assert file.read_text("utf-8") == 'name = "mine"\n'


def test_a_file_that_was_written_before_is_replaced(store: Path, tmp_path: Path) -> None:
    for option in ("--html", "--flame-graph", "--speedscope"):
        file = tmp_path / option.strip("-")
        done(run(store, "--where", "clients=1", option, str(file)))
        done(run(store, "--where", "clients=16", option, str(file)))


def test_one_side_may_be_folded_alone(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "b.folded"
    done(run(store, "--where", "clients=1", "--folded", str(path), "--side", "B"))
    text = path.read_text("utf-8")
    assert "log_writer" in text
    assert "mysql_insert" not in text


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (("--base", "mysql-9.9"), "has no level 'mysql-9.9'", "mysql-5.6.24, mysql-9.7.4"),
        (("--candidate", "mysql-9.7"), "has no level", "did you mean 'mysql-9.7.4'?"),
        (("--where", "client=1"), "has no factor 'client'", "did you mean 'clients'?"),
        (("--where", "clients=2"), "the factor clients has no level '2'", "there is: 1, 16"),
        (("--test", "delete"), "the factor test has no level", "insert"),
        (("--factor", "servers"), "has no factor 'servers'", "server"),
        (("--factor", "engine"), "InnoDB is the only level of engine", "another level"),
        (("--flame-graph", "x.svg"), "2 comparisons have profiles", "(clients 16)"),
        (("--where", "clients"), "expected FACTOR=LEVEL", "--where"),
        (
            ("--factor", "clients", "--where", "clients=1"),
            "clients is the compared factor",
            "leave out --where",
        ),
    ],
)
def test_mistakes_name_what_there_is(
    store: Path, arguments: tuple[str, ...], said: str, hint: str
) -> None:
    error = refused(store, *arguments)
    assert said in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--html", "same", "--folded", "same"), "--html and --folded both write"),
        (("--html", "page", "--side", "A"), "--side needs --folded"),
        (("--html", "page", "--blocks", "2"), "--blocks needs --ablate"),
        (("--html", "page", "--flame-graph", "x.svg"), "2 comparisons have profiles"),
        (("--html", "page", "--ablate"), "an ablation tests one comparison"),
        (("--html", "page", "--folded", "none/x"), "cannot write what --folded asks for to none/x"),
        (("--html", "/proc/x.html"), "cannot write what --html asks for to /proc/x.html"),
    ],
)
def test_mistakes_are_reported_before_any_output(
    store: Path,
    arguments: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    error = refused(store, *arguments)
    assert said in error.message
    assert "--output" not in (error.hint or "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("off", "on"), [("false", "true"), ("OFF", "on"), ("0", "1")])
def test_switches_are_named_as_in_an_experiment_or_a_report(
    tmp_path: Path, off: str, on: str
) -> None:
    switched = of_levels(study_run(profiled=0, clients=(1, 16)), "tls", False, True)
    store = keep(switched, tmp_path / "results.sqlite")
    arguments = ("--factor", "tls", "--base", on, "--candidate", off, "--where", "clients=1")
    (explanation,) = explained(store, *arguments)
    assert explanation["title"] == "tls off against tls on (clients 1)"
    others = ("--base", "1", "--candidate", "16", "--where", f"tls={on}")
    (explanation,) = explained(store, *others)
    assert explanation["title"] == "clients 16 against clients 1 (tls on)"
    error = refused(store, "--where", "tls=yes")
    assert error.message == "the factor tls has no level 'yes'"
    assert error.hint == "there is: off, on (or false, true; or 0, 1)"


def test_the_command_of_a_comparison_is_understood(tmp_path: Path) -> None:
    switched = of_levels(study_run(profiled=0, clients=(1, 16)), "tls", False, True)
    store = keep(switched, tmp_path / "results.sqlite")
    found = explain_levels(switched, Selection())
    assert len(found) == 2
    _, _, *arguments = shlex.split(shown_command(found[1]))
    (explanation,) = explained(store, *arguments)
    assert explanation["title"] == "tls on against tls off (clients 16)"


def test_several_levels_of_a_factor_are_any_of_them(store: Path) -> None:
    text = done(run(store, "--where", "clients=1", "--where", "clients=16")).stdout
    assert "(clients 16)" in text
    assert "(clients 1)" in text


def test_what_an_experiment_showed_is_in_every_output(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def share(mean: float) -> MeanEstimate:
        return MeanEstimate(mean, mean - 0.01, mean + 0.01, 5, 0.95, 0.001)

    tested = Ablation(
        RATE,
        share(0.14),
        (Recovery(SUSPECTS[0].about, share(0.09), share(0.05)),),
        run_id="suspects-1",
        left_out=("compiler: part of the build, so no setting can change it",),
        untried=("checksums: failed at start",),
    )
    explained = [replace(explained_study(), likely_causes=SUSPECTS[:2])]
    monkeypatch.setattr(explain, "explain_levels", lambda *_: explained)
    measured = with_ablation(explained[0], tested)
    monkeypatch.setattr(
        command_module,
        "ablate",
        lambda _path, found, *_, **__: replace(found, compared=(measured,), ablations=()),
    )
    page = tmp_path / "page.html"
    text = done(run(store, "--ablate")).stdout
    explanation = one_line(text)
    assert "of the 14 % loss of mysql-9.7.4 against mysql-5.6.24" in explanation
    assert "not aligned: compiler" in explanation
    assert explanation.count("(shown by an experiment)") == 1
    result = done(run(store, "--ablate", "--json", "--html", str(page)))
    (document,) = json.loads(result.stdout)["explanations"]
    experiment = document["ablation"]
    assert experiment["run"] == "suspects-1"
    assert experiment["left_out"] == ["compiler: part of the build, so no setting can change it"]
    assert experiment["untried"] == ["checksums: failed at start"]
    assert experiment["remaining"] == experiment["recovered"][0]["remaining"]
    assert [suspect["shown"] for suspect in document["likely_causes"]] == [True, False]
    html = page.read_text("utf-8")
    assert 'id="explanation-1-ablation"' in html
    assert html.count('<span class="shown">') == 1


def suspects_run(run_id: str, of: StoredRun, *, blocks: int, created: str) -> StoredRun:
    """Return a run that tested the binary log of ``of``: with it aligned, B equals A."""
    a, b = of.treatments
    aligned = TreatmentRecord("aligned", 2, {**b.levels, "configuration": "aligned"}, b.resolved)
    trials: list[TrialRecord] = []
    attempts = []
    tested = Ablates(
        run=of.run.id,
        base=a.id,
        candidate=b.id,
        aligned=(Aligned(name="binary log", treatment=aligned.id),),
        left_out=(),
    )
    spec = of.run.spec.replace(tested=tested)
    last = of.last_attempts()
    for treatment, as_of in ((a, a), (b, b), (aligned, a)):
        for trial in of.trials:
            if trial.treatment_id == as_of.id and trial.purpose == "measure":
                name = f"{run_id}/{treatment.id}/{trial.block}"
                trials.append(TrialRecord(name, treatment.id, trial.block, len(trials)))
                if trial.block < blocks:
                    attempts.append(
                        replace(last[trial.id], trial_id=name, observations=Observations())
                    )
    run = replace(of.run, id=run_id, name="study-suspects", created_utc=created, spec=spec)
    return StoredRun(run, (a, b, aligned), tuple(trials), tuple(attempts))


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run, and two that ablated its likely causes later.

    The last one was stopped at once."""
    path = tmp_path_factory.mktemp("tested") / "results.sqlite"
    observed = study_run()
    keep(observed, path)
    keep(suspects_run("x-suspects-1", observed, blocks=3, created="2030-01-01T00:00:00Z"), path)
    return keep(
        suspects_run("x-suspects-2", observed, blocks=0, created="2030-01-02T00:00:00Z"), path
    )


@pytest.mark.parametrize("asked", [(), ("latest",), ("x-suspects-1",), ("sysbench",)])
def test_ablation_result_is_shown_for_either_run(tested: Path, asked: tuple[str, ...]) -> None:
    text = done(run(tested, *asked)).stdout
    explanation = one_line(text)
    assert "mysql-9.7.4 against mysql-5.6.24" in explanation
    assert "% loss of mysql-9.7.4 against mysql-5.6.24 in" in explanation
    assert "measured by run x-suspects-1" in explanation


def test_what_was_tested_is_in_every_output(tested: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = done(run(tested, "--json", "--html", str(page)))
    (document,) = json.loads(result.stdout)["explanations"]
    assert document["ablation"]["run"] == "x-suspects-1"
    assert document["ablation"]["remaining"]["mean"] == pytest.approx(0)
    assert 'id="explanation-1-ablation"' in page.read_text("utf-8")
    assert 'id="explanation-1-ablation"' in reported(tested, "sysbench")


def test_what_was_tested_the_other_way_round_is_another_question(tested: Path) -> None:
    (document,) = explained(tested, "--base", "mysql-9.7.4", "--candidate", "mysql-5.6.24")
    assert document["ablation"] is None


def test_ablation_of_a_removed_run_is_reported(tmp_path: Path) -> None:
    test = suspects_run("x-suspects-1", study_run(), blocks=3, created="2030-01-01T00:00:00Z")
    error = refused(keep(test, tmp_path / "results.sqlite"))
    assert "x-suspects-1 is an ablation of run" in error.message


def test_run_without_observations_is_reported(tmp_path: Path) -> None:
    error = refused(keep(unobserved(), tmp_path / "results.sqlite"))
    assert "has no observations" in error.message
    assert "--collectors" in (error.hint or "")


def test_call_paths_need_profiles(tmp_path: Path) -> None:
    store = keep(study_run(profiled=0), tmp_path / "results.sqlite")
    error = refused(store, "--flame-graph", str(tmp_path / "x.svg"))
    assert "--profile-blocks" in (error.hint or "")
    assert not (tmp_path / "x.svg").exists()


def test_a_report_explains_what_was_observed(store: Path) -> None:
    page = Page(reported(store))
    assert page.open == []
    assert "explanation-2-breakdown" in page.sections
    assert page.sections.index("explanation-1-answer") < page.sections.index("options")


def test_a_report_of_many_comparisons_explains_each(tmp_path: Path) -> None:
    clients = tuple(range(1, 11))
    store = keep(study_run(profiled=1, clients=clients), tmp_path / "results.sqlite")
    text = reported(store)
    page = Page(text)
    assert page.open == []
    assert "explanation-10-breakdown" in page.sections
    assert 'class="flame-graph"' not in text
    assert "--where clients=10" in text


def test_a_report_of_a_run_that_nobody_observed_explains_nothing(tmp_path: Path) -> None:
    text = reported(keep(unobserved(), tmp_path / "results.sqlite"))
    assert "<script" not in text
    assert "explanation-1" not in text


def test_a_report_of_one_server_explains_nothing() -> None:
    stored = study_run(profiled=0)
    factors = [each.replace(levels=each.levels[:1]) for each in stored.run.spec.factors]
    run = replace(stored.run, spec=stored.run.spec.replace(factors=factors))
    assert explanations_of_report(replace(stored, run=run), "mysql-5.6.24", ()) == ()
    assert len(explanations_of_report(stored, "mysql-5.6.24", ())) == 1


def test_counted_instructions_have_a_flame_graph_where_nothing_was_profiled(tmp_path: Path) -> None:
    store = keep(study_run(profiled=0, counted=True), tmp_path / "results.sqlite")
    done(run(store, "--flame-graph", str(tmp_path / "x.svg")))
    assert "instructions per statement" in (tmp_path / "x.svg").read_text("utf-8")
    refused(store, "--folded", str(tmp_path / "x.txt"))
    page = tmp_path / "why.html"
    done(run(store, "--html", str(page)))
    assert "explanation-1-instructions" in Page(page.read_text("utf-8")).sections
    assert 'class="flame-graph"' in page.read_text("utf-8")
