"""Test `millrace bisect`: what it measures, skips, resumes and prints."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from millrace.analysis.compare.bisection import bisection
from millrace.app.execution import RESUMES
from millrace.campaign import attempts, preparation
from millrace.campaign.attempts import Claimed
from millrace.campaign.inputs import RunInput
from millrace.cli import bisect
from millrace.cli.main import cli
from millrace.errors import HostError, Interrupted, PermanentHostError, TrialFailed, UserError
from millrace.host import valgrind
from millrace.host.valgrind import Valgrind
from millrace.levels import Level
from millrace.model.instruction_counts import stored_counts
from millrace.store.records import AttemptResult, MeasurementRecord
from tests.support.counted_starts import OLD, start
from tests.support.experiment_files import DRIVEN
from tests.support.laboratory import inputs_of
from tests.support.measured import Speed, alone, experiment_file, n_runs, newest, noisy
from tests.unit.cli.conftest import Carry

SERVERS = ["mysql-5.5.34", "mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.33", "mysql-9.7.4"]
SLOW = SERVERS[3:]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch)


def speed(levels: Mapping[str, Level], _block: int) -> float:
    return 900.0 if levels["server"] in SLOW else 1000.0


def without(server: str) -> Speed:
    return lambda levels, block: None if levels["server"] == server else speed(levels, block)


def search(store: Path, *arguments: str, **changes: str) -> Result:
    """Return one level of each factor, and servers that do not matter here."""
    file = experiment_file(store.parent, engines=["InnoDB"])
    asked = {
        "good": SERVERS[0],
        "bad": SERVERS[-1],
        "among": ",".join(SERVERS),
        "workload": str(file),
        **changes,
    }
    given = [each for name, value in asked.items() for each in (f"--{name}", value)]
    return CliRunner().invoke(
        cli, ["bisect", *given, *arguments, "--store", str(store)], catch_exceptions=False
    )


def test_change_is_reported_with_levels_and_a_page(store: Path, carry: Carry) -> None:
    stand_in = carry(noisy(speed, 0.01))
    result = search(store)
    assert result.exit_code == 0, result.output
    answer_text = " ".join(result.stdout.split())
    assert "the change is between mysql-5.7.22 and mysql-8.0.33" in answer_text
    assert re.search(r"\b(9|10)\.\d % lower", answer_text)
    page = Path(result.stdout.strip().splitlines()[-1].removeprefix("report: "))
    assert "<svg" in page.read_text(encoding="utf-8")
    assert "trials to go" in result.stderr or "trial to go" in result.stderr
    # One trial a block; the ends come first.
    assert [block for block, _ in stand_in.trials] == list(range(len(stand_in.trials)))
    assert {levels["server"] for _, levels in stand_in.trials[:8]} == {SERVERS[0], SERVERS[-1]}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, carry: Carry) -> list[str]:
    """Count instructions without servers from now on; return the servers that are counted."""
    carry(speed)
    servers: list[str] = []

    def execute_claimed(claimed: Sequence[Claimed], _emit: object) -> list[AttemptResult]:
        (only,) = claimed
        assert only.trial.purpose == "count"
        server = str(only.trial.treatment.levels["server"])
        servers.append(server)
        wobble = 1.0 + 1e-4 * (len(servers) % 3)
        found = start(
            (1010.0 if server in SLOW else 1000.0) * wobble, extra=10.0 * (server in SLOW)
        )
        document = {"instructions": stored_counts(found, OLD, "3.19.0")}
        return [
            AttemptResult(
                "finished",
                measurements=(
                    MeasurementRecord("instructions", found.repetitions[0].instructions),
                ),
                observations={"server": document},
            )
        ]

    monkeypatch.setattr(attempts, "execute_claimed", execute_claimed)
    monkeypatch.setattr(valgrind, "find", lambda: Valgrind("valgrind", "vgdb", "3.19.0"))
    return servers


def test_a_change_of_instructions_takes_few_starts_and_names_the_function(
    store: Path, counted: list[str]
) -> None:
    file = store.parent / "driven.toml"
    file.write_text(DRIVEN, encoding="utf-8")
    result = search(store, "--by", "instructions", workload=str(file))
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert (
        "the change is between mysql-5.7.22 and mysql-8.0.33: instruction count is 1.0 % higher"
        in said
    )
    assert "mysql-8.0.33 executes 1.00 % more instructions than mysql-5.7.22" in said
    assert "+10" in said
    assert "in extra with all that it calls" in said
    assert "Instructions are not speed" in said
    assert 8 <= len(counted) <= 16
    again = search(store, "--by", "instructions", "--json", workload=str(file))
    assert json.loads(again.stdout)["metric"] == "instructions"
    assert len(counted) == len(newest(store).trials)
    by_speed = newest(store).run.spec.bisects
    assert by_speed is not None
    assert by_speed.by == "instructions"


def test_instructions_need_valgrind_and_clients(
    store: Path, monkeypatch: pytest.MonkeyPatch, counted: list[str]
) -> None:
    with pytest.raises(UserError, match="--by instructions counts the statements of clients"):
        search(store, "--by", "instructions")

    def missing() -> Valgrind:
        raise PermanentHostError("valgrind is not installed")

    monkeypatch.setattr(valgrind, "find", missing)
    with pytest.raises(PermanentHostError):
        search(store, "--by", "instructions")
    assert counted == []


def test_json_and_later_reports_tell_the_same(store: Path, tmp_path: Path, carry: Carry) -> None:
    carry(noisy(speed, 0.01))
    document = json.loads(search(store, "--json").stdout)
    assert document["schema"] == "millrace.bisection/2"
    assert (document["last_good"], document["first_bad"]) == ("mysql-5.7.22", ["mysql-8.0.33"])
    assert document["low"] < document["ratio"] < document["high"] < 1
    report = ["report", "--store", str(store), "--format"]
    again = CliRunner().invoke(cli, [*report, "json"], catch_exceptions=False)
    assert json.loads(again.stdout) == document
    page = tmp_path / "page.html"
    CliRunner().invoke(cli, [*report, "html", "--output", str(page)], catch_exceptions=False)
    assert "between mysql-5.7.22 and mysql-8.0.33" in page.read_text("utf-8").replace(
        '<span class="name">', ""
    ).replace("</span>", "")
    with pytest.raises(UserError, match="no report of the format csv"):
        CliRunner().invoke(cli, [*report, "csv"], catch_exceptions=False)


def test_it_goes_on_where_it_was_stopped(store: Path, carry: Carry) -> None:
    stand_in = carry(noisy(speed, 0.01), ends_after=5)
    with pytest.raises(Interrupted):
        search(store)
    first = newest(store)
    search(store)
    last = newest(store)
    assert last.run.id == first.run.id
    assert len(last.trials) == len(stand_in.trials) == bisection(last).trials
    seen = len(stand_in.trials)
    search(store)
    assert len(stand_in.trials) == seen
    search(store, "--new")
    assert n_runs(store) == 2


def test_a_server_that_does_not_start_is_passed_over_after_a_second_try(
    store: Path, carry: Carry
) -> None:
    stand_in = carry(noisy(without("mysql-5.7.22"), 0.01))
    document = json.loads(search(store, "--json").stdout)
    assert document["last_good"] == "mysql-5.6.24"
    assert document["first_bad"] == ["mysql-5.7.22", "mysql-8.0.33"]
    skipped = next(each for each in document["members"] if each["name"] == "mysql-5.7.22")
    assert skipped["skipped"] == "failed at start: mysqld: does not start"
    tried = [block for block, levels in stand_in.trials if levels["server"] == "mysql-5.7.22"]
    assert len(tried) == 2
    assert len(set(tried)) == 1


@pytest.mark.parametrize(("problem", "tries"), [(PermanentHostError, 2), (UserError, 1)])
def test_a_server_that_cannot_be_had_is_passed_over(
    problem: Any, tries: int, store: Path, monkeypatch: pytest.MonkeyPatch, carry: Carry
) -> None:
    carry(noisy(speed, 0.01))
    asked: list[str] = []

    def given(_stack: Any, plan: Any, *_others: Any, **_named: Any) -> RunInput:
        server = str(plan.treatments[0].resolved["server"])
        asked.append(server)
        if server == "mysql-5.7.22":
            raise problem("the download ended early")
        return inputs_of(plan)

    monkeypatch.setattr(preparation, "run_input", given)
    document = json.loads(search(store, "--json").stdout)
    skipped = next(each for each in document["members"] if each["name"] == "mysql-5.7.22")
    assert skipped["skipped"] == "failed at install: the download ended early"
    assert asked.count("mysql-5.7.22") == tries
    assert document["outcome"] == "found"


def test_what_may_pass_ends_it_and_the_server_is_tried_again(
    store: Path, monkeypatch: pytest.MonkeyPatch, carry: Carry
) -> None:
    stand_in = carry(noisy(speed, 0.01))
    is_down = [True]

    def given(_stack: Any, plan: Any, *_others: Any, **_named: Any) -> RunInput:
        if is_down[0] and str(plan.treatments[0].resolved["server"]) == "mysql-5.7.22":
            raise HostError("the download was cut off", hint="try again")
        return inputs_of(plan)

    monkeypatch.setattr(preparation, "run_input", given)
    with pytest.raises(HostError, match="the download was cut off") as problem:
        search(store)
    assert problem.value.hint == f"try again; {RESUMES}"
    measured = len(stand_in.trials)
    assert len(newest(store).trials) == measured > 0
    is_down[0] = False
    document = json.loads(search(store, "--json").stdout)
    assert (n_runs(store), document["last_good"]) == (1, "mysql-5.7.22")
    assert not any(each["skipped"] for each in document["members"])
    assert document["trials"] == len(stand_in.trials) > measured


def test_a_data_file_that_servers_read_is_made_once(
    store: Path, monkeypatch: pytest.MonkeyPatch, carry: Carry
) -> None:
    carry(noisy(speed, 0.01))
    seen: list[Path | None] = []
    made = store.parent / "nodes.tsv"

    def given(_stack: Any, plan: Any, *_others: Any, data_file: Any) -> RunInput:
        seen.append(data_file)
        return replace(inputs_of(plan), data_file=data_file or made)

    monkeypatch.setattr(preparation, "run_input", given)
    search(store)
    assert len(seen) > 2  # once a server
    assert (seen[0], {*seen[1:]}) == (None, {made})


def test_an_end_that_does_not_start_ends_it(store: Path, carry: Carry) -> None:
    carry(noisy(without(SERVERS[-1]), 0.01))
    with pytest.raises(
        TrialFailed, match=r"the first or last server .* mysql-9\.7\.4: failed at start"
    ):
        search(store)


def test_ends_the_wrong_way_round_are_to_be_swapped(store: Path, carry: Carry) -> None:
    stand_in = carry(noisy(speed, 0.005))
    with pytest.raises(UserError, match=r"mysql-5\.5\.34 is better than mysql-9\.7\.4") as refused:
        search(store, good=SERVERS[-1], bad=SERVERS[0])
    assert refused.value.hint == f"swap the servers: --good {SERVERS[0]} --bad {SERVERS[-1]}"
    assert len(stand_in.trials) <= 12


def test_absence_of_a_change_is_reported(store: Path, carry: Carry) -> None:
    carry(noisy(lambda _levels, _block: 1000.0, 0.004))
    answer_text = " ".join(search(store, "--margin", "3").stdout.split())
    assert "no change between mysql-5.5.34 and mysql-9.7.4 beyond 3 %" in answer_text


def test_a_list_may_be_a_file(store: Path, tmp_path: Path, carry: Carry) -> None:
    carry(noisy(speed, 0.01))
    file = tmp_path / "servers.txt"
    file.write_text("# by age\n" + "\n".join(SERVERS) + "\n\n", encoding="utf-8")
    assert search(store, among=str(file)).exit_code == 0
    assert bisection(newest(store)).spec.members == tuple(SERVERS)


@pytest.mark.parametrize(
    ("arguments", "changes", "said"),
    [
        ((), {"among": "mysql-5.6.24,mysql-8.0.3"}, "unknown server 'mysql-8.0.3'"),
        ((), {"workload": "sysbenc"}, "did you mean 'sysbench'"),
        ((), {"workload": "load-data"}, "parameters.rows: is missing"),
        ((), {"workload": "absent.toml"}, "experiment file absent.toml does not exist"),
        (("--scale", "demo"), {"workload": "sysbench"}, "has no scales"),
        ((), {"bad": SERVERS[0]}, "--good and --bad are both"),
    ],
)
def test_mistakes_are_refused(
    arguments: tuple[str, ...], changes: dict[str, str], said: str, store: Path
) -> None:
    with pytest.raises(UserError, match=said.replace(".", r"\.")):
        search(store, *arguments, **changes)
    assert not store.exists()


@pytest.mark.parametrize(
    ("option", "level"), [("a=1", 1), ("a=ON", True), ("a=off", False), ("a=8M", "8M"), ("a=", "")]
)
def test_options_are_levels(option: str, level: Level) -> None:
    assert bisect.option_value(option) == ("a", level)


@pytest.mark.parametrize("named", ["missing.txt", "mysql-5.6.2", ""])
def test_a_list_that_is_neither_a_file_nor_a_server_is_refused(named: str, store: Path) -> None:
    result = search(store, among=named)
    assert result.exit_code == 2
    assert f"{named!r} is neither a file nor a known server" in result.output
    assert "`millrace servers list` shows all servers" in result.output


def test_an_option_without_a_value_is_refused(store: Path) -> None:
    result = search(store, "--option", "innodb_x")
    assert result.exit_code == 2
    assert "is not of the form NAME=VALUE" in result.output
