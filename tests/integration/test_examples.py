"""Run the commands of the documents for real where they take seconds."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from millrace.analysis.history.recording import points_of
from millrace.cli.main import cli
from millrace.loadgen.program import find_load_generator
from millrace.model.documents import Document
from millrace.servers.instances.instance import Instance
from millrace.store.history_records import HistoryPart
from millrace.store.store import Store
from tests import examples
from tests.conftest import InstanceOf, ServerOf
from tests.examples import ROOT, STAND_INS, Command, Example
from tests.support import benchmark_outputs as outputs
from tests.support import driving
from tests.support.builders import keep
from tests.support.explained import study_run
from tests.support.history_points import point, stepping
from tests.support.observed_trials import B

pytestmark = pytest.mark.integration

# The first words of a command, and why it is only parsed (tests/unit/test_documents.py).
NOT_RUN = {
    ("make",): "builds, checks or tests the whole checkout",
    ("jq",): "is a program of others",
    ("millrace", "servers", "install"): "downloads through a program of others",
}
# The first words of commands that tests/integration/test_measuring_examples.py runs in small.
MEASURING = (
    ("millrace", "run"),
    ("millrace", "calibrate"),
    ("millrace", "count"),
    ("millrace", "bisect"),
    ("millrace", "history", "confirm"),
    ("millrace", "config", "show"),
    ("millrace", "servers", "add"),
    ("millrace", "servers", "verify"),
    ("millrace", "snapshots", "remove"),
    ("millrace-load", "threads"),
)
# Commands that take seconds and leave nothing: they run once, whichever page has them.
ONCE = ("doctor", "config")
# Replacements that make an example small enough for a test.
SMALLER = {"100000": "200", "30": "1"}

EXAMPLES = [
    (example, command)
    for example in examples.every()
    if example.language == "sh"
    for command in examples.commands(example)
]


def reasons(
    command: Command, those: Iterable[tuple[str, ...]] = (*NOT_RUN, *MEASURING)
) -> list[tuple[str, ...]]:
    """Return the words that say why a command is not run here; none where it runs."""
    words = (command.program, *command.arguments)
    return [known for known in those if words[: len(known)] == known]


RUN = sorted({example.page for example, command in EXAMPLES if not reasons(command)})


def test_every_reason_is_that_of_a_command() -> None:
    used = {known for _, command in EXAMPLES for known in reasons(command, NOT_RUN)}
    assert used == set(NOT_RUN)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store: two servers with everything observed, and a history that moved at a version."""
    place = tmp_path_factory.mktemp("kept")
    stored = renamed(study_run(), B, "mysql-5.7.22")
    keep(stored, place / "results.sqlite")
    moved = STAND_INS["CHANGE"]
    drawn = points_of(stored, reference=None, label=moved, at_utc="2026-01-01T00:00:00Z").part
    series = next(each for each in drawn.series if each.metric == "throughput")
    (state,) = drawn.states
    with Store.open(place / "results.sqlite") as store:
        for number, value in enumerate(stepping((8, 0.8), n=16)):
            made = point(number, value, state=state.id)
            if number == 8:
                made = replace(made, label=moved, run_id=stored.run.id)
            store.histories.record(HistoryPart((series,), (state,), ((series.id, made),)))
    found = CliRunner().invoke(cli, ["history", "detect", "--store", str(place / "results.sqlite")])
    assert found.exit_code == 0, found.output
    return place


@pytest.fixture(scope="module")
def instance(server_of: ServerOf, instance_of: InstanceOf) -> Iterator[Instance]:
    for name in ("mysql-5.6.24", "mysql-5.7.22"):
        server_of(name)
    with instance_of("mariadb-10.11.19") as started:
        driving.ask_without_database(started, "CREATE DATABASE sbtest")
        yield started


OUTPUTS: tuple[tuple[str, Callable[[int], str], str], ...] = (  # directories of docs/analyze.md
    ("runs", lambda number: outputs.of_sysbench(rate=f"{1000 + number}.5"), "log"),
    ("pgbench", lambda number: outputs.of_pgbench(rate=f"{1000 + number}.5"), "log"),
    ("slap", lambda number: outputs.of_slap(seconds=f"{8 + number}.753"), "txt"),
    ("tprocc", lambda number: outputs.of_hammerdb(nopm=35_570 + number), "log"),
)


@pytest.fixture(scope="module")
def files(instance: Instance, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files that a reader of the pages has: shown ones, and programs' output."""
    place = tmp_path_factory.mktemp("files")
    (place / "experiments").symlink_to(ROOT / "experiments")
    for example in shown("analyze.md", "csv"):
        name = "results.csv" if "treatment" in example.text else "nightly.csv"
        (place / name).write_text(example.text, encoding="utf-8")
    for number in (1, 2, 3):
        timed = [{"command": name, "mean": number} for name in ("old", "new")]
        outputs.exported(place / f"{number}.json", *timed)
    for directory, output, suffix in OUTPUTS:
        (place / directory).mkdir()
        for number, name in enumerate(("old-1", "new-1", "new-2", "old-2")):
            outputs.keep(place / directory / f"{name}.{suffix}", output(number))
    (specification,) = shown("load-spec.md", "json")
    (place / "SPEC.json").write_text(at_server(specification, instance), encoding="utf-8")
    result = Command("millrace-load", ("run", "SPEC.json"), "first.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        execute(result, instance)
        shutil.copy("first.json", "second.json")
    return place


@pytest.fixture(scope="module")
def seen() -> set[Command]:
    """Return the commands that already ran and need not run again."""
    return set()


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_the_commands_of_a_page_do_what_they_say(
    page: Path,
    kept: Path,
    files: Path,
    instance: Instance,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seen: set[Command],
) -> None:
    shutil.copytree(files, tmp_path / "here", symlinks=True)
    shutil.copytree(kept, tmp_path / "store")
    monkeypatch.setenv("MILLRACE_STORE", str(tmp_path / "store" / "results.sqlite"))
    monkeypatch.chdir(tmp_path / "here")
    for example, command in EXAMPLES:
        if example.page == page and not reasons(command) and command not in seen:
            execute(command, instance)
            if command.arguments[0] in ONCE:
                seen.add(command)


def execute(command: Command, instance: Instance) -> None:
    """Run a command in its place; it ends with status 0, and its output goes to its file."""
    arguments = [word for each in command.arguments for word in expanded(each)]
    if command.program == "millrace":
        if arguments[:2] == ["results", "remove"]:
            arguments.append("--yes")
        done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        status, output, error = done.exit_code, done.stdout, done.stderr
    else:
        program = find_load_generator() if command.program == "millrace-load" else command.program
        ended = subprocess.run(
            [program, *small(arguments, instance)],
            env={**os.environ, "MYSQL_PWD": instance.password},
            capture_output=True,
            text=True,
            check=False,
        )
        status, output, error = ended.returncode, ended.stdout, ended.stderr
    assert status == 0, f"{command}: {error}"
    if command.output is not None:
        assert output
        Path(command.output).write_text(output, encoding="utf-8")


def expanded(word: str) -> list[str]:
    """Return the shell's expansion of a word with an asterisk."""
    return sorted(map(str, Path().glob(word))) if "*" in word else [word]


def small(arguments: list[str], instance: Instance) -> list[str]:
    """Return the specification for the test's server, with fewer rows and seconds."""
    places = {"--socket": str(instance.socket), "--user": instance.user}
    return [
        places.get(before, SMALLER.get(word, word))
        for before, word in zip(["", *arguments], arguments, strict=False)
    ]


def shown(page: str, language: str) -> list[Example]:
    """Return the examples of a page of docs/ in a language."""
    found = examples.of_page(ROOT / "docs" / page)
    return [each for each in found if each.language == language]


def at_server(example: Example, instance: Instance) -> str:
    """Return the specification for the test's server, and for a second one."""
    document = json.loads(example.text)
    document["connection"] = {
        "socket": str(instance.socket),
        "user": instance.user,
        "password": instance.password,
        "database": "sbtest",
    }
    for phase in document["phases"]:
        if phase["kind"] == "drive":
            phase["end"]["seconds"] = 1
    return json.dumps(document)


def renamed(value: Any, old: str, new: str) -> Any:
    """Return a record with a name replaced everywhere."""
    if isinstance(value, str):
        return value.replace(old, new)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: renamed(getattr(value, each.name), old, new) for each in fields(value)}
        return replace(value, **parts)
    if isinstance(value, Document):
        return type(value).model_validate(renamed(value.to_json(), old, new))
    if isinstance(value, dict):
        return {renamed(key, old, new): renamed(each, old, new) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(renamed(each, old, new) for each in value)
    return value
