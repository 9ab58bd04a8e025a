"""Test what `millrace count` counts, keeps and shows, and what it refuses."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from millrace.app import execution
from millrace.campaign import preparation, resume
from millrace.errors import Interrupted, PermanentHostError, TrialFailed, UserError
from millrace.host import valgrind
from millrace.host.valgrind import Valgrind
from millrace.model.instruction_counts import CountedStart
from millrace.model.roles import SERVER
from millrace.store.records import InstanceRecord, StepRecord
from millrace.store.store import Store
from millrace.trial import counting
from millrace.trial.counting import Extent
from millrace.trial.steps import StepsOutcome
from millrace.trial.trial_server import TrialContext
from tests.support import small_servers
from tests.support.builders import study
from tests.support.called import Done, millrace
from tests.support.counted_starts import OLD, start
from tests.support.measured import HOST, alone

FILE = """\
name = "counted"
title = "Counted statements"
workload = "{workload}"
[factors]
server = ["mysql-5.6.24", "mysql-5.7.22"]
{factors}
[compare]
factor = "{factor}"
base = {base}
[parameters]
{parameters}
"""
DRIVEN = 'clients = [8, 1]\ntest = ["point-query", "scan"]'
COSTS = {"mysql-5.6.24": 1_000.0, "mysql-5.7.22": 1_100.0}


class Counter:
    """Counts without a server; remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Extent | None]] = []
        self.failing: str | None = None
        self.ends_after: int | None = None
        self.extra = 0.0

    def __call__(
        self, trial: TrialContext, _counting: Valgrind, extent: Extent | None
    ) -> SimpleNamespace:
        if self.ends_after is not None and len(self.asked) >= self.ends_after:
            self.ends_after = None
            raise Interrupted("interrupted")
        (server,) = trial.spec.servers
        name, test = server.server.name, str(trial.spec.workload.values["test"])
        self.asked.append((name, test, extent))
        trial.outputs.instances[SERVER] = cast(Any, instance_of(name))
        cost = COSTS[name] + len(self.asked) % 3
        found: CountedStart | None = start(cost, cost + 1, cost, extra=self.extra)
        ended = StepsOutcome((StepRecord(0, "count", 0.0, 40.0, "finished"),))
        if name == self.failing:
            found = None
            ended = StepsOutcome((), "start", TrialFailed("the server does not start"))
        return SimpleNamespace(found=found, execute=lambda: ended)


def instance_of(server: str) -> InstanceRecord:
    """Return what a trial records of a server."""
    made = next(
        each for attempt in study().attempts for each in attempt.instances if each.role == SERVER
    )
    return replace(made, server=replace(made.server, name=server))


def missing(name: str) -> None:
    raise UserError(f"{name} is not installed")


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counter:
    alone(monkeypatch)
    tree = small_servers.tree(tmp_path / "small/tree")
    made = small_servers.installed(tree)

    def installed(plan: Any, _on_event: object) -> Mapping[str, Any]:
        names = {str(each.resolved["server"]) for each in plan.treatments}
        return {name: SimpleNamespace(**{**vars(made), "name": name}) for name in names}

    monkeypatch.setattr(preparation, "installed_servers", installed)
    monkeypatch.setattr(resume, "install", SimpleNamespace(find=missing))
    monkeypatch.setattr(execution, "host_record", lambda: HOST)
    counter = Counter()
    monkeypatch.setattr(counting, "CountedServer", counter)
    monkeypatch.setattr(counting, "program_of", lambda _spec: OLD)
    monkeypatch.setattr(valgrind, "find", lambda: Valgrind("valgrind", "vgdb", "3.19.0"))
    return counter


def counted(directory: Path, *options: str, status: int | None = None, **changes: str) -> Done:
    given = {
        "workload": "sysbench", "factors": DRIVEN, "factor": "server", "base": '"mysql-5.6.24"',
        "parameters": "table_size = 100", **changes,
    }  # fmt: skip
    file = directory / "counted.toml"
    file.write_text(FILE.format(**given), encoding="utf-8")
    store = directory / "results.sqlite"
    return millrace("count", file, "--store", store, *options, status=status)


def stored(directory: Path, *arguments: str, status: int | None = None) -> Done:
    """Call a command on the store of a test."""
    return millrace(*arguments, "--store", directory / "results.sqlite", status=status)


def test_servers_start_in_turns_with_one_client_and_the_same_statements(
    counter: Counter, tmp_path: Path
) -> None:
    done = counted(tmp_path, "--starts", "2", "--json", status=0)
    assert len(counter.asked) == 2 * 2 * 2
    assert counter.asked[:4] != counter.asked[4:]
    assert {extent for _, _, extent in counter.asked[4:]} == {Extent(80, 480)}
    assert [extent for _, _, extent in counter.asked[:4]].count(None) == 2
    document = json.loads(done.stdout)
    assert [group["label"] for group in document["groups"]] == ["point-query", "scan"]
    assert all(
        "clients" not in each["levels"] for g in document["groups"] for each in g["treatments"]
    )
    assert document["groups"][0]["comparisons"][0]["verdict"] == "more"


def test_a_flame_graph_is_of_one_comparison(counter: Counter, tmp_path: Path) -> None:
    graph = tmp_path / "graph.svg"
    done = counted(tmp_path, "--flame-graph", str(graph), status=2)
    assert "has 2 comparisons, and a flame graph shows one" in done.stderr.replace("\n", " ")
    assert not counter.asked
    counted(
        tmp_path, "--flame-graph", str(graph), "--starts", "2", factors='test = ["scan"]', status=0
    )
    assert "instructions per statement" in graph.read_text(encoding="utf-8")


def test_text_begins_with_the_result(counter: Counter, tmp_path: Path) -> None:
    done = counted(tmp_path, "--starts", "2", "--candidate", "mysql-5.7.22", status=0)
    assert "Counted statements: instructions" in done.stdout
    assert "point-query: mysql-5.7.22 executes" in done.stdout
    assert counter.asked


def test_a_server_that_fails_twice_is_not_tried_again_and_the_others_are_counted(
    counter: Counter, tmp_path: Path
) -> None:
    counter.failing = "mysql-5.7.22"
    done = counted(tmp_path, "--starts", "3", status=3)
    assert "mysql-5.7.22 has no count: the server does not start" in done.stdout
    # Each of two starts is tried twice, for each of two tests.
    assert [name for name, _, _ in counter.asked].count("mysql-5.7.22") == 2 * 2 * 2
    counter.asked.clear()
    counter.failing = None
    again = counted(tmp_path, "--starts", "3", status=0)
    assert [name for name, _, _ in counter.asked] == ["mysql-5.7.22"] * 3 * 2
    assert "mysql-5.7.22 executes" in again.stdout


def test_a_count_is_kept_and_not_repeated(counter: Counter, tmp_path: Path) -> None:
    first = counted(tmp_path, "--starts", "2", status=0)
    counter.asked.clear()
    again = counted(tmp_path, "--starts", "2")
    assert (counter.asked, again.stdout) == ([], first.stdout)
    assert "all 8 trials have a result" in again.stderr
    assert stored(tmp_path, "report").stdout == first.stdout
    counted(tmp_path, "--starts", "3")
    assert len(counter.asked) == 2 * 2
    counted(tmp_path, "--starts", "2", "--new")
    assert len(counter.asked) == 2 * 2 + 2 * 2 * 2
    listed = json.loads(stored(tmp_path, "results", "list", "--json").stdout)
    assert [(each["name"], each["finished"]) for each in listed] == [
        ("count-counted", 8), ("count-counted", 12),
    ]  # fmt: skip


def test_an_interrupted_count_resumes(counter: Counter, tmp_path: Path) -> None:
    counter.ends_after = 3
    done = counted(tmp_path, "--starts", "2", status=130)
    assert "the same command resumes where it stopped" in done.stderr
    counter.asked.clear()
    assert counted(tmp_path, "--starts", "2").returncode == 0
    assert len(counter.asked) == 5


def test_another_valgrind_counts_anew(
    counter: Counter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted(tmp_path, "--starts", "2")
    counter.asked.clear()
    monkeypatch.setattr(valgrind, "find", lambda: Valgrind("valgrind", "vgdb", "3.24.0"))
    done = counted(tmp_path, "--starts", "2", "--json")
    assert "the valgrind was 3.19.0 and is 3.24.0" in " ".join(done.stderr.split())
    assert len(counter.asked) == 8
    assert json.loads(done.stdout)["valgrind"] == "3.24.0"


def test_a_run_that_measures_is_another_run(counter: Counter, tmp_path: Path) -> None:
    counted(tmp_path, "--starts", "2")
    with Store.open(tmp_path / "results.sqlite", read_only=True) as store:
        run = store.load_run(store.find_run("latest").id)
    assert {trial.purpose for trial in run.trials} == {"count"}
    assert (run.run.blocks, run.run.spec.counts) == (0, "instructions")
    assert not run.run.spec.design.slices
    shown = stored(tmp_path, "results", "show", "latest")
    assert "count 1" in shown.stdout
    assert re.search(r"instructions 1,00[012]\b", shown.stdout)  # by the order of the trials
    assert "blocks" not in shown.stdout
    assert "valgrind 3.19.0" in shown.stdout


def test_a_report_has_the_formats_of_counts(counter: Counter, tmp_path: Path) -> None:
    counter.extra = 50.0
    made = counted(tmp_path, "--starts", "2", "--json")
    document = stored(tmp_path, "report", "--format", "json")
    assert document.stdout == made.stdout
    found = json.loads(document.stdout)
    assert (found["experiment"], found["starts"], found["valgrind"]) == ("counted", 2, "3.19.0")
    assert found["run"].startswith("count-counted-")
    assert found["command"].startswith("millrace count")
    turned = json.loads(
        stored(tmp_path, "report", "--format", "json", "--base", "mysql-5.7.22").stdout
    )
    assert turned["groups"][0]["comparisons"][0]["verdict"] == "fewer"
    for options, said in (
        (["--format", "html"], "no report of the format html"),
        (["--output", str(tmp_path / "x.txt")], "of the format terminal in a file"),
        (["--fail-on", "regression"], "it has no margin or verdicts on speed"),
        (["--margin", "1"], "it has no margin or verdicts on speed"),
        (["--base", "mysql-9"], "is not a level of the compared factor"),
    ):
        refused = stored(tmp_path, "report", *options, status=2)
        assert said in " ".join(refused.stderr.split())


def test_a_count_is_explained_without_a_time(counter: Counter, tmp_path: Path) -> None:
    counted(tmp_path, "--starts", "2", factors='test = ["scan"]')
    explained = stored(tmp_path, "explain", status=0)
    said = " ".join(explained.stdout.split())
    assert "No time was measured: this run counts instructions, and nothing else." in said
    assert "mysql-5.7.22 executes" in said
    assert "millrace run" not in said


def test_a_count_moves_to_another_store(counter: Counter, tmp_path: Path) -> None:
    made = counted(tmp_path, "--starts", "2")
    file, other = tmp_path / "runs.zip", tmp_path / "other.sqlite"
    stored(tmp_path, "results", "export", "latest", "--output", str(file), status=0)
    millrace("results", "import", file, "--store", other, status=0)
    (run,) = json.loads(millrace("results", "list", "--json", "--store", other).stdout)
    assert run["origin"] == "imported"
    shown = millrace("report", run["id"], "--store", other).stdout
    assert set(made.stdout.splitlines()) <= set(shown.splitlines())


def test_a_count_is_recorded_in_a_history(counter: Counter, tmp_path: Path) -> None:
    counted(tmp_path, "--starts", "2")
    done = stored(tmp_path, "history", "record", "latest", "--label", "a1b2c3d", status=0)
    assert "recorded a1b2c3d: 2 new points" in done.stderr
    (tmp_path / "history.json").write_text(stored(tmp_path, "history", "show", "--json").stdout)
    series = json.loads((tmp_path / "history.json").read_text())["series"]
    assert {each["fixed_factors"]["test"] for each in series} == {"point-query", "scan"}
    assert {(each["unit"], each["direction"], each["margin"]) for each in series} == {
        ("instructions", "lower", 0.002)
    }
    ((point,), _) = (each["points"] for each in series)
    assert point["ratio"] == pytest.approx(1.1, abs=0.005)
    assert (point["level"], point["n_blocks"]) == ("mysql-5.7.22", 2)
    assert point["build"] == instance_of("mysql-5.7.22").server.build.program_sha256
    assert point["low"] < point["ratio"] < point["high"]


def test_without_valgrind_the_host_cannot(
    counter: Counter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Valgrind:
        raise PermanentHostError("valgrind is not installed", hint="install the package valgrind")

    monkeypatch.setattr(valgrind, "find", missing)
    done = counted(tmp_path, status=4)
    assert "install the package valgrind" in done.stderr
    assert not counter.asked


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"factor": "clients", "base": "1"}, "compares numbers of clients"),
        (
            {"workload": "load-data", "factors": "", "parameters": "rows = 100"},
            "has no statements of clients on tables that are kept as a snapshot",
        ),
        (
            {"parameters": 'table_size = 100\nsnapshot = "off"'},
            "has no statements of clients on tables that are kept as a snapshot",
        ),
    ],
)
def test_what_has_no_count_is_refused(
    counter: Counter, tmp_path: Path, changes: Mapping[str, str], said: str
) -> None:
    done = counted(tmp_path, **changes, status=2)
    assert said in done.stderr.replace("\n", " ")
    assert not counter.asked


def test_attached_servers_are_refused(counter: Counter, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "AttachedServer", SimpleNamespace)
        done = counted(tmp_path)
    assert done.returncode == 2
    assert "is attached" in done.stderr
