"""Test what `millrace count` counts, in which order, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.campaign import preparation
from millrace.errors import PermanentHostError, TrialFailed
from millrace.host import valgrind
from millrace.host.valgrind import Valgrind
from millrace.model.instruction_counts import CountedStart
from millrace.trial import counting
from millrace.trial.count_extent import Extent
from millrace.trial.spec import TrialSpec
from tests.unit.analysis.counts.counted import OLD, start
from tests.unit.campaign.measured import alone
from tests.unit.cli.called import Done, millrace
from tests.unit.servers import small_servers

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

    def __call__(
        self, spec: TrialSpec, _counting: Valgrind, extent: Extent | None, _emit: object
    ) -> CountedStart:
        (server,) = spec.servers
        test = str(spec.workload.values["test"])
        self.asked.append((server.server.name, test, extent))
        if server.server.name == self.failing:
            raise TrialFailed("the server does not start")
        cost = COSTS[server.server.name] + len(self.asked) % 3
        return start(cost, cost + 1, cost)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counter:
    alone(monkeypatch)
    tree = small_servers.tree(tmp_path / "small/tree")
    made = small_servers.installed(tree)

    def installed(plan: Any, _on_event: object) -> Mapping[str, Any]:
        names = {str(each.resolved["server"]) for each in plan.treatments}
        return {name: SimpleNamespace(**{**vars(made), "name": name}) for name in names}

    monkeypatch.setattr(preparation, "installed_servers", installed)
    counter = Counter()
    monkeypatch.setattr(counting, "count", counter)
    monkeypatch.setattr(counting, "program_of", lambda _spec: OLD)
    monkeypatch.setattr(valgrind, "find", lambda: Valgrind("valgrind", "vgdb", "3.19.0"))
    return counter


def counted(directory: Path, *options: str, **changes: str) -> Done:
    given = {
        "workload": "sysbench", "factors": DRIVEN, "factor": "server", "base": '"mysql-5.6.24"',
        "parameters": "table_size = 100", **changes,
    }  # fmt: skip
    file = directory / "counted.toml"
    file.write_text(FILE.format(**given), encoding="utf-8")
    return millrace("count", file, *options)


def test_servers_start_in_turns_with_one_client_and_the_same_statements(
    counter: Counter, tmp_path: Path
) -> None:
    done = counted(tmp_path, "--starts", "2", "--json")
    assert done.returncode == 0, done.stderr
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
    done = counted(tmp_path, "--flame-graph", str(graph))
    assert done.returncode == 2
    assert "has 2 comparisons, and a flame graph shows one" in done.stderr.replace("\n", " ")
    assert not counter.asked
    one = counted(tmp_path, "--flame-graph", str(graph), "--starts", "2", factors='test = ["scan"]')
    assert one.returncode == 0, one.stderr
    assert "instructions per statement" in graph.read_text(encoding="utf-8")


def test_text_says_the_answer_first(counter: Counter, tmp_path: Path) -> None:
    done = counted(tmp_path, "--starts", "2", "--candidate", "mysql-5.7.22")
    assert done.returncode == 0, done.stderr
    assert "Counted statements: instructions" in done.stdout
    assert "point-query: mysql-5.7.22 executes" in done.stdout
    assert counter.asked


def test_a_server_that_fails_twice_is_not_tried_again_and_the_others_are_counted(
    counter: Counter, tmp_path: Path
) -> None:
    counter.failing = "mysql-5.7.22"
    done = counted(tmp_path, "--starts", "3")
    assert done.returncode == 3
    said = "mysql-5.7.22 · point-query · default: the server does not start"
    assert done.stderr.count(f"{said}\n") == 2
    assert "mysql-5.7.22 has no count: the server does not start" in done.stdout
    assert [name for name, _, _ in counter.asked].count("mysql-5.7.22") == 2 * 2 * 2
    assert done.stderr.count("it is started once more") == 2 * 2


def test_without_valgrind_the_host_cannot(
    counter: Counter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Valgrind:
        raise PermanentHostError("valgrind is not installed", hint="install the package valgrind")

    monkeypatch.setattr(valgrind, "find", missing)
    done = counted(tmp_path)
    assert done.returncode == 4
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
    done = counted(tmp_path, **changes)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr.replace("\n", " ")
    assert not counter.asked


def test_attached_servers_are_refused(counter: Counter, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "AttachedServer", SimpleNamespace)
        done = counted(tmp_path)
    assert done.returncode == 2
    assert "is attached" in done.stderr
