"""Test that no command prints or writes control characters, or markup of another user."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest

from millrace.cli.main import cli
from millrace.report.run.formats import REPORTS
from millrace.shown_text import shown
from millrace.store import checked
from millrace.store.records import StoredRun
from millrace.store.store import Store
from tests.support.builders import Fails, RunBuilder, keep, noisy
from tests.support.called import millrace
from tests.support.explained import study_run
from tests.support.observed_store import keep as keep_observed

HOSTILE = "\x1b]52;c;ZXZpbA==\x07 \x9b31m \u202egnp.\u2066 \u200b\ufeff [red]x[/nope] :smile:"


def call(*arguments: str) -> tuple[int, str]:
    """Call a command, whose output may hold no hidden text; return its exit status and output."""
    done = millrace(*arguments)
    check(done.stdout)
    check(done.stderr)
    return done.returncode, done.stdout + done.stderr


def check(text: str) -> None:
    """Reject text that a terminal, or the eye, takes for something else."""
    assert shown(text) == text, [c for c in text if shown(c) != c]
    assert "\N{SMILING FACE WITH OPEN MOUTH AND SMILING EYES}" not in text


def leaves(
    group: click.Group, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Return each command without subcommands, with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*above, name))
        else:
            yield (*above, name), command


COMMANDS = list(leaves(cli))


@pytest.mark.parametrize(
    ("words", "command"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS]
)
def test_what_a_user_pastes_is_shown_in_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], command: click.Command
) -> None:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path))
    monkeypatch.setenv("MILLRACE_STORE", str(tmp_path / "results.sqlite"))
    arguments = [
        HOSTILE for each in command.params if isinstance(each, click.Argument) and each.required
    ]
    status, said = call(*words, *arguments, f"--{HOSTILE}")
    assert status == 2
    assert r"\x1b]52;c;" in said
    if arguments:
        assert call(*words, *arguments)[0] in (2, 3)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with an imported run whose every text is hostile."""
    path = tmp_path / "results.sqlite"
    level = f"mysql-5.7{HOSTILE}"
    stored = RunBuilder(
        {
            "mysql-5.6.24": noisy(3.0, 4),
            level: noisy(4.0, 4, seed=2),
            "mysql-8.0.12": [Fails(reason=f"it said {HOSTILE}", log_tail=f"{HOSTILE}\n{HOSTILE}")]
            * 4,
        },
        factors={"configuration": [f"wmf{HOSTILE}"]},
    ).build()
    run = replace(
        stored.run,
        title=f"title {HOSTILE}",
        millrace_command=f"millrace run `{HOSTILE}`\n<script>alert(1)</script>",
    )
    keep(replace(stored, run=run), path)
    return path


@pytest.mark.parametrize("output_format", REPORTS)
def test_reports_of_a_hostile_run(store: Path, tmp_path: Path, output_format: str) -> None:
    file = tmp_path / "report"
    arguments = ("report", "latest", "--store", str(store), "--format", output_format)
    if output_format != "html":
        status, said = call(*arguments)
        assert status == 0, said
    assert call(*arguments, "--output", str(file))[0] == 0
    text = file.read_bytes().decode("utf-8")
    check(text)
    assert "52;c;" in text
    if output_format == "json":
        assert HOSTILE in json.loads(text)["run"]["title"]


@pytest.mark.parametrize(
    "words",
    [
        ("results", "list"),
        ("results", "show", "latest"),
        ("results", "show", "latest", "--json"),
        ("explain", "latest"),
        ("history", "record", "latest", "--label", HOSTILE),
    ],
    ids=" ".join,
)
def test_a_hostile_run_is_listed_and_shown(store: Path, words: tuple[str, ...]) -> None:
    call(*words, "--store", str(store))


def test_a_hostile_history(store: Path) -> None:
    assert call("history", "record", "latest", "--label", "a1", "--store", str(store))[0] == 0
    for words in (("show",), ("show", "--json"), ("detect",)):
        assert call("history", *words, "--store", str(store))[0] == 0
    with Store.open(store) as opened:
        assert list(opened.histories.read())


def test_names_of_a_csv_file(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    rows = "".join(f"{n},{HOSTILE}a,1,{HOSTILE}\n{n},{HOSTILE}b,2,{HOSTILE}\n" for n in range(5))
    file.write_text("block,treatment,value,unit\n" + rows, encoding="utf-8")
    for options in ((), ("--json",)):
        status, said = call("analyze", "paired", str(file), *options)
        assert status == 0
        assert "[red]x[/nope]" in said
    file.write_text("series,label,value\n" + f"{HOSTILE},{HOSTILE},1\n" * 9, encoding="utf-8")
    for options in ((), ("--json",)):
        assert call("analyze", "series", str(file), *options)[0] == 0
    file.write_text(f"block,treatment,{HOSTILE}\n1,a,1\n", encoding="utf-8")
    status, said = call("analyze", "paired", str(file))
    assert (status, r"\x1b]52;c;" in said) == (2, True)


def test_commands_that_hyperfine_timed(tmp_path: Path) -> None:
    source = tmp_path / "a.json"
    results = [{"command": f"{name}{HOSTILE}", "mean": 1.5} for name in ("old", "new")]
    source.write_text(json.dumps({"results": results}), encoding="utf-8")
    status, said = call("analyze", "import", "hyperfine", str(source))
    assert status == 0
    assert r"old\x1b]52;c;" in said
    target = tmp_path / "pairs.csv"
    assert call("analyze", "import", "hyperfine", str(source), "-o", str(target))[0] == 0
    check(target.read_bytes().decode("utf-8"))
    assert call("analyze", "paired", str(target))[0] == 0


def test_names_of_an_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path))
    file = tmp_path / "mine.toml"
    hostile = json.dumps(HOSTILE)
    file.write_text(
        f'name = {hostile}\ntitle = {hostile}\nworkload = "load-data"\n[factors]\n'
        f'server = ["mysql-5.6.24", {hostile}]\n[compare]\nfactor = "server"\n'
        'base = "mysql-5.6.24"\n',
        encoding="utf-8",
    )
    for command in ("plan", "run", "calibrate"):
        status, said = call(command, str(file))
        assert status == 2
        assert "[red]x[/nope]" in said


FORGED = "\nerror: forged"


@pytest.mark.parametrize(
    "words",
    [("report", "latest"), ("explain", "latest"), ("results", "show", "latest")],
    ids=" ".join,
)
def test_no_name_of_a_run_begins_a_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A line end in what others wrote would let them write lines that look like millrace's."""
    found = json.loads(study_document())

    def forge(value: object, place: tuple[str, ...] = ()) -> object:
        if isinstance(value, dict):
            return {key: forge(each, (*place, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [forge(each, place) for each in value]
        is_free = place[-1:] in FREE or place[-4:-1] == ("plans", "insert_next", "rows")
        return value + FORGED if isinstance(value, str) and is_free else value

    stored = checked.from_json(StoredRun, json.dumps(forge(found)).encode())
    keep_observed(stored, tmp_path / "results.sqlite")
    _, said = call(*words, "--store", str(tmp_path / "results.sqlite"))
    assert [line for line in said.splitlines() if line.strip().startswith("error: forged")] == []


FREE = [(name,) for name in ("title", "what", "hint", "observer", "disturbed", "check", "hint")]


def study_document() -> bytes:
    return bytes(checked.adapter(StoredRun).dump_json(study_run(profiled=1), exclude_unset=True))


def test_no_name_of_a_csv_file_begins_a_line(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    names = [f'"{name}{FORGED}"' for name in ("old", "new", "ms")]
    rows = "".join(
        f"{n},{names[0]},{100 + n},{names[2]}\n{n},{names[1]},{120 + n},{names[2]}\n"
        for n in range(6)
    )
    file.write_text("block,treatment,value,unit\n" + rows, encoding="utf-8")
    said = call("analyze", "paired", str(file))[1]
    points = "".join(
        f'{names[0]},"c{n}{FORGED}",{100 + 20 * (n > 20) + n % 3}\n' for n in range(40)
    )
    file.write_text("series,label,value\n" + points, encoding="utf-8")
    said += call("analyze", "series", str(file), "--direction", "higher")[1]
    assert r"old\nerror: forged" in said
    assert [line for line in said.splitlines() if line.strip().startswith("error: forged")] == []
