"""Run the commands of the documents that measure, with little data, few trials and short times.

The words of a command stay, but for sizes. Its experiment file has two servers, and one level of
each other factor.
"""

import json
import math
import shutil
import subprocess
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from millrace.cli.main import cli
from millrace.loadgen.program import find_load_generator
from millrace.servers import install, snapshots
from millrace.store.history_records import HistoryPart
from millrace.store.store import Store
from tests.conftest import InstanceOf, ServerOf
from tests.examples import ROOT, STAND_INS, Command
from tests.integration.test_examples import EXAMPLES, MEASURING, expanded, reasons, shown
from tests.support import small_servers

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once", "settled_soon")]

SMALLER = {
    "blocks": 2,
    "operations": 300,
    "rows": 2_000,
    "settle_s": 0.2,
    "table_size": 500,
    "tables": 1,
    "time_s": 0.3,
    "warmup_s": 0.1,
}
OF_WORKLOADS = ("settle_s", "table_size", "time_s", "warmup_s")
# A workload of a file that has its name takes less time than the built-in one.
OPTIONS = {"--blocks": "3", "--profile-blocks": "1", "--workload": "updates.toml"}
# These bound commands that a page leaves to measure as long as they take.
BOUNDS = {
    "calibrate": ("--verdicts", "1"),
    "bisect": ("--max-time", "10s"),
    "count": ("--starts", "1"),
    "confirm": ("--blocks", "3"),
}
OLD, OTHER = "mysql-5.6.24", "mysql-5.7.22"
SERVERS = ("mysql-5.5.34", OLD, OTHER, "mysql-8.0.12", "mysql-8.0.33")
CHANGE = STAND_INS["CHANGE"]
BUILD = f"main-{CHANGE}"  # of docs/history.md

COMMANDS = list(dict.fromkeys(command for _, command in EXAMPLES if reasons(command, MEASURING)))


def of(*words: str) -> list[Command]:
    """Return the different commands that begin with these words."""
    return [each for each in COMMANDS if (each.program, *each.arguments)[: len(words)] == words]


def ids(command: Command) -> str:
    return " ".join(command.arguments)


def millrace(*arguments: str) -> str:
    """Run a command that succeeds; return its output."""
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def placed(command: Command, words: Mapping[str, str]) -> Command:
    """Return a command with other words in place of these."""
    return replace(command, arguments=tuple(words.get(each, each) for each in command.arguments))


def smaller_words(command: Command) -> list[str]:
    """Return the arguments of an example with smaller sizes."""
    words = [word for each in command.arguments for word in expanded(each)]
    small = [OPTIONS.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    for word in words[:2]:
        if word in BOUNDS and BOUNDS[word][0] not in small:
            small += BOUNDS[word]
    return small


def execute(command: Command) -> str:
    """Run an example with smaller sizes."""
    return millrace(*smaller_words(command))


def smaller(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an experiment with smaller sizes, two servers, and one level of each other factor."""
    made: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            made[key] = smaller(value)
        elif isinstance(value, list):
            made[key] = value[: 2 if key == "server" else 1]
        else:
            made[key] = SMALLER.get(key, value)
    return made


def as_toml(document: Mapping[str, Any], *keys: str) -> Iterator[str]:
    """Yield the lines of a TOML document."""
    for key, value in document.items():
        if isinstance(value, dict):
            yield from as_toml(value, *keys, key)
        else:
            yield f"{'.'.join(map(json.dumps, (*keys, key)))} = {json.dumps(value)}"


def write(file: Path, document: Mapping[str, Any]) -> None:
    """Write an experiment file with smaller sizes, where it leaves them to the workload, too."""
    document = smaller(document)
    document["factors"].setdefault("options", {}).update(table_definition_cache=[400])
    if "scales" not in document:
        document["parameters"] = {name: SMALLER[name] for name in OF_WORKLOADS}
    elif document["workload"] != "load-data":
        document.setdefault("parameters", {})["settle_s"] = SMALLER["settle_s"]
    file.write_text("\n".join(as_toml(document)) + "\n", encoding="utf-8")


@pytest.fixture(scope="module", autouse=True)
def here(server_of: ServerOf, own_places: Path) -> Iterator[Path]:
    """Make the directory of a reader of the pages, who has experiment files and builds."""
    place = own_places / "here"
    (place / "experiments").mkdir(parents=True)
    for file in (ROOT / "experiments").glob("*.toml"):
        write(place / "experiments" / file.name, tomllib.loads(file.read_text(encoding="utf-8")))
    nightly, *_ = shown("history.md", "toml")
    write(place / "nightly.toml", tomllib.loads(nightly.text))
    write(
        place / "updates.toml",
        {
            "name": "updates",
            "workload": "updates",
            "factors": {"server": [OLD]},
            "compare": {"factor": "server", "base": OLD},
        },
    )
    for name in SERVERS:
        server_of(name)
    build = server_of("mariadb-10.2.11").program.parents[1]
    (place / "src/server").mkdir(parents=True)
    (place / "src/server/build").symlink_to(build)
    archive = place / "mysql-8.4.6-linux-glibc2.28-x86_64.tar.xz"
    with tarfile.open(archive, "w:xz") as opened:
        opened.add(small_servers.tree(place / "tree", "8.4.6"), arcname=archive.stem)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("HOME", str(place))
        patch.setenv("MILLRACE_STORE", str(place / "results.sqlite"))
        yield place
    shutil.rmtree(place)


def test_every_measuring_example_is_run() -> None:
    assert {known for command in COMMANDS for known in reasons(command, MEASURING)} == set(
        MEASURING
    )


@pytest.mark.parametrize(
    "command",
    [each for each in of("millrace", "run") if each.arguments[1].startswith("experiments/")],
    ids=ids,
)
def test_runs(command: Command) -> None:
    assert "/reports/" in execute(command)


@pytest.mark.parametrize("command", of("millrace", "calibrate"), ids=ids)
def test_calibrations(command: Command) -> None:
    assert "verdict" in execute(command)


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize("command", of("millrace", "count"), ids=ids)
def test_counts(command: Command) -> None:
    assert "per statement" in execute(command)


@pytest.mark.parametrize("command", of("millrace", "bisect"), ids=ids)
def test_searches(command: Command) -> None:
    assert "/reports/bisect-" in execute(command)


def test_histories() -> None:
    """Run the nightly experiment, and confirm a change of a history that has its builds."""
    # No library has to be fetched for this one.
    build = install.install(OLD).base_dir
    millrace("servers", "add", BUILD, "--family", "mysql", "--dir", str(build))
    (nightly,) = of("millrace", "run", "nightly.toml")
    execute(nightly)
    millrace("history", "record", "latest", "--label", CHANGE)
    let_level_move(Path("results.sqlite"))
    assert "? candidate regression" in millrace("history", "detect")
    with Store.open(Path("results.sqlite")) as store:
        (change,) = store.histories.changes()
    # Pages show it with and without a number of blocks, which is the same one here.
    commands = [placed(each, {CHANGE: change.id}) for each in of("millrace", "history", "confirm")]
    for command in {tuple(smaller_words(each)): each for each in commands}.values():
        assert "3 blocks" in execute(command)


def let_level_move(store: Path) -> None:
    """Give a history's series points of another build before its point, and more after it."""
    noise = np.random.default_rng(1).normal(0, 0.01, 24)
    old = install.install(OTHER).provenance.program_sha256
    with Store.open(store) as opened:
        run_id = opened.find_run("latest").id
        part = opened.histories.of_runs([run_id])
        opened.histories.forget(run_id)
        (series,) = (each for each in part.series if each.metric == "throughput")
        (measured,) = (point for of_series, point in part.points if of_series == series.id)
        for number, log_ratio in enumerate(noise):
            is_old = number < len(noise) // 2
            is_change = number == len(noise) // 2
            made = replace(
                measured,
                level=OTHER if is_old else BUILD,
                build=old if is_old else measured.build,
                label=CHANGE if is_change else f"c{number}",
                run_id=run_id if is_change else f"made-{number}",
                at_utc=f"2026-01-{1 + number:02}T00:00:00Z",
                ratio=math.exp(log_ratio - (0 if is_old else 0.2)),
            )
            states = tuple(each for each in part.states if each.id == made.state)
            opened.histories.record(HistoryPart((series,), states, ((series.id, made),)))


def test_own_servers() -> None:
    for command in of("millrace", "servers", "add"):
        execute(command)
    (verify,) = of("millrace", "servers", "verify")
    assert "works" in execute(verify)
    millrace("servers", "remove", verify.arguments[-1])


def test_settings() -> None:
    (show,) = of("millrace", "config", "show")
    assert "innodb_buffer_pool_size" in execute(show)


def test_snapshots_are_removed() -> None:
    (remove,) = of("millrace", "snapshots", "remove")
    name = snapshots.listing()[0].name
    execute(placed(remove, {STAND_INS["SNAPSHOT"]: name}))
    assert name not in {each.name for each in snapshots.listing()}


def test_threads_of_a_server(instance_of: InstanceOf) -> None:
    (threads,) = of("millrace-load", "threads")
    with instance_of(OLD) as instance:
        arguments = placed(threads, {STAND_INS["PID"]: str(instance.pid)}).arguments
        with subprocess.Popen(
            [find_load_generator(), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline()) == {"type": "ready"}
            said, _ = process.communicate("begin\nend\n", timeout=60)
    assert json.loads(said)["window_s"] > 0
    assert process.returncode == 0
