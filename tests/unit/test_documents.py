"""Test that programs accept every example of the documents, and print the outputs in them."""

import json
import re
import subprocess
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click
import pytest

from millrace.analysis.compare import calibration
from millrace.analysis.compare.bisection import Bisection, bisection
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import AaTrials, ApplicableCalibration, GroupAaTrials
from millrace.analysis.compare.paired import compare_counted
from millrace.analysis.counts.compare_counts import compare_counts
from millrace.analysis.history.overview import ChangeGroup
from millrace.analysis.steady.policy import unsteady_sides
from millrace.app.experiments import validation_context
from millrace.cli import calibrate
from millrace.cli.main import COMMANDS, cli
from millrace.cli.progress import Forecast, block_end_text, review_text
from millrace.experiment.model import Experiment
from millrace.experiment.read import Overrides, parse
from millrace.experiment.validation import check
from millrace.experiment.validation_context import ValidationContext
from millrace.importers import paired, series
from millrace.levels import level_named
from millrace.loadgen.program import find_load_generator
from millrace.model.events import BlockEnded, InterimRatio, VisibleChanges
from millrace.model.instruction_counts import TreatmentStarts
from millrace.model.run_spec import Bisects
from millrace.model.servers import AttachedServer
from millrace.report.bisection import answer as bisection_answer
from millrace.report.calibration import head_line
from millrace.report.counts import sentence as counts_sentence
from millrace.report.external.paired import sentence as external_sentence
from millrace.report.history import group_text
from millrace.report.run.doubts import aa_text
from millrace.report.run.json import ComparisonPart
from millrace.servers import catalogue
from millrace.servers.attached import parse_dsn
from millrace.stats.bisection_model import Found, Measured, NoChange
from millrace.stats.ratio import RatioEstimate
from millrace.workloads import completed, load, names, of_test, parse_workload
from tests import examples
from tests.examples import LANGUAGES, PAGES, ROOT, Command, Example
from tests.support.builders import study
from tests.support.counted_starts import start, treatment
from tests.support.history_points import change
from tests.unit.analysis.compare.test_bisection import bisected
from tests.unit.analysis.steady.test_policy import DIRTY, FALLS, trial
from tests.unit.cli.test_progress import closed, look
from tests.unit.report.test_history import shown

EXAMPLES = examples.every()
SERVER = re.compile(r"\b(?:mysql|mariadb)-(?:\d+\.\d+[\w.+-]*\w|trixie|sid|bookworm)")
SHIPPED = ROOT / "experiments" / "load-data.toml"


def of_language(language: str) -> list[Any]:
    found = [each for each in EXAMPLES if each.language == language]
    assert found
    return [pytest.param(each, id=each.place) for each in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_is_fenced_with_a_language(page: Path) -> None:
    unknown = [each.place for each in examples.of_page(page) if each.language not in LANGUAGES]
    assert not unknown, f"the language of an example is one of {', '.join(LANGUAGES)}"
    fenced = False
    above = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fenced ^= line.startswith("```")
        indented = not fenced and not above.strip() and line.startswith(("    ", "\t"))
        assert not indented, f"{page.name}:{number}: fence an example, and say its language"
        above = line


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.place)
def test_servers_are_those_of_the_catalogue_or_added_on_the_page(example: Example) -> None:
    known = {*catalogue.entries(), *catalogue.suites(), *added(example.page)}
    named = set(SERVER.findall(without_files(example.text)))
    assert named <= known


@pytest.mark.parametrize("example", of_language("sh"))
def test_commands_are_those_of_the_programs(example: Example) -> None:
    for command in examples.commands(example):
        if command.program == "millrace":
            check_millrace(command, example)
        elif command.program == "millrace-load":
            check_load_generator(command)
        elif command.program == "make":
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            assert re.search(rf"^{re.escape(command.arguments[0])}:", makefile, re.MULTILINE)
        elif command.program == "cp":
            assert (ROOT / command.arguments[0]).is_file()
        else:
            assert command.program == "jq", f"{command.program} is not a program of this house"


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "CHANGELOG.md"],  # which names what was, too
    ids=lambda page: page.name,
)
def test_commands_in_the_text_exist_and_have_the_options(page: Path) -> None:
    for words in map(str.split, examples.spans(page)):
        program, *rest = words
        options = [word.strip("[]") for word in rest if word.strip("[]").startswith("--")]
        if program == "millrace":
            _, taker, _ = found_command(rest)
            known = {"--help", *(each for param in taker.params for each in param.opts)}
            assert {option.partition("=")[0] for option in options} <= known, words
        elif program == "millrace-load" and rest:
            fixed = [word for word in rest if re.fullmatch(r"(?:--)?[a-z][a-z-]*", word)]
            check_load_generator(Command(program, tuple(fixed)))


@pytest.mark.parametrize("example", of_language("toml"))
def test_files_are_those_of_their_parser(example: Example, tmp_path: Path) -> None:
    document = tomllib.loads(example.text)
    whole = whole_documents(example.page)
    if example.page.name == "workloads.md":
        assert parse_workload(completed(merged(whole[0], document)))
        return
    base = whole[0] if whole else tomllib.loads(SHIPPED.read_text(encoding="utf-8"))
    servers = strings(document, "factors", "server")
    attached = list(document.get("tls", {}))
    if attached:
        document = merged(document, {"factors": {"server": ["mysql-5.6.24", *attached]}})
    context = around(*servers, *attached, attached=attached)
    (tmp_path / "my.cnf").write_text("[mysqld]\n", encoding="utf-8")  # which an example names
    _, found = check(merged(base, document), context, directory=tmp_path)
    assert [f"{each.where}: {each.message}" for each in found.diagnostics] == []


@pytest.mark.parametrize("example", of_language("json"))
def test_documents_are_those_of_today(example: Example) -> None:
    document = json.loads(example.text)
    if example.page.name == "load-spec.md":
        answer = refusal_of_a_specification(document)
        assert "cannot connect" in answer, answer
        broken = refusal_of_a_specification({**document, "phases": [{"kind": "none"}]})
        assert "cannot connect" not in broken
        return
    assert example.page.name == "report-json.md", "say here who reads this document"
    assert set(document) == set(ComparisonPart.model_fields)
    ComparisonPart.model_validate_json(example.text, strict=True)


def test_the_tutorial_reads_the_verdict_of_the_sample() -> None:
    page = ROOT / "docs" / "report-json.md"
    (sample,) = (each for each in examples.of_page(page) if each.language == "json")
    read_out = re.findall(r"^> (.*)$", page_text("tutorial.md"), re.MULTILINE)
    assert " ".join(read_out) == json.loads(sample.text)["sentence"]


def test_figures_on_calibrating_are_those_of_the_program() -> None:
    page = " ".join(page_text("calibrate.md").split())
    options = {option.name: option for option in calibrate.command.params}
    assert f"as many in each group ({options['verdicts'].default}) |" in page
    assert f"| `{options['injected'].default}` (if nothing is said) |" in page
    *shorter, longest = calibration.TABLE
    assert f"in {', '.join(map(str, shorter))} and {longest} blocks" in page
    assert f"more than {calibration.MOST_DAYS} days apart" in page


@pytest.mark.parametrize("name", [name for name in COMMANDS if (ROOT / f"docs/{name}.md").exists()])
def test_options_that_a_page_lists_are_those_of_its_command(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    rows = re.findall(r"^\| (`--.*?) \|", page_text(f"{name}.md"), re.MULTILINE)
    listed = {option for row in rows for option in re.findall(r"--[a-z][a-z-]*", row)}
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    assert listed <= known


@pytest.mark.parametrize("example", of_language("csv"))
def test_tables_are_those_that_judge_reads(example: Example, tmp_path: Path) -> None:
    path = tmp_path / "example.csv"
    path.write_text(example.text, encoding="utf-8")
    reader = paired.read if "treatment" in example.text else series.read
    assert reader(path)


def page_text(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def check_millrace(command: Command, example: Example) -> None:
    """Parse a command as the program does; read the experiment that it names, too."""
    place = f"{example.place}: {command}"
    name, taker, rest = found_command(command.arguments)
    assert not isinstance(taker, click.Group), place
    given = taker.make_context(name, rest, parent=click.Context(cli)).params
    path = given.get("file")
    if path is not None and path.suffix == ".toml":
        read(example.page, path, given.get("scale"), given.get("candidate"))
    if name == "explain":
        check_selection(example, given)
    if name == "bisect":
        named = given["workload"]
        assert named in names() or of_test(named), place


def found_command(words: Sequence[str]) -> tuple[str, click.Command, list[str]]:
    """Return the command that the words name, within groups of commands, and the words after it."""
    name, taker, rest = "millrace", cast(click.Command, cli), list(words)
    while isinstance(taker, click.Group) and rest and not rest[0].startswith("-"):
        name, *rest = rest
        found = taker.get_command(click.Context(cli), name)
        assert found is not None, words
        taker = found
    return name, taker, rest


def check_selection(example: Example, given: Mapping[str, Any]) -> None:
    """Check that the selection of `explain` is in the experiment that the same example ran."""
    asked = [*given["candidates"], *([given["base"]] if given["base"] else [])]
    if not asked:
        return
    runs = [each for each in examples.commands(example) if each.arguments[0] == "run"]
    assert runs, f"{example.place}: a block that selects from a run has run it"
    experiment = read(example.page, Path(runs[-1].arguments[1]), None, None)
    levels = [level for factor in experiment.factors for level in factor.levels]
    assert [each for each in asked if level_named(each, levels) is None] == []


def check_load_generator(command: Command) -> None:
    """Check a command with `--help` at its end.

    The program checks the options before it, then stops."""
    done = subprocess.run(
        [find_load_generator(), *command.arguments, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def read(page: Path, path: Path, scale: str | None, candidate: str | None) -> Experiment:
    """Read the experiment that a command names: a shipped one, or one of the same page."""
    copied = {
        command.arguments[1]: command.arguments[0]
        for example in examples.of_page(page)
        if example.language == "sh"
        for command in examples.commands(example)
        if command.program == "cp"
    }
    shown = {f"{each['name']}.toml": each for each in whole_documents(page)}
    source = ROOT / copied.get(str(path), path)
    if source.is_file():
        text, servers = source.read_text(encoding="utf-8"), []
    else:
        assert path.name in shown, f"{page.name} names {path}, which is not there"
        text = next(
            each.text for each in examples.of_page(page) if f'name = "{path.stem}"' in each.text
        )
        servers = strings(shown[path.name], "factors", "server")
    return parse(
        text, path, scale=scale, context=around(*servers), overrides=Overrides(candidate=candidate)
    )


def refusal_of_a_specification(document: Mapping[str, Any]) -> str:
    """Return the load generator's error for a specification whose server is unreachable."""
    nowhere = {**document["connection"], "host": None, "port": None, "socket": "/nowhere/socket"}
    done = subprocess.run(
        [find_load_generator(), "run", "-"],
        input=json.dumps({**document, "connection": nowhere}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    return done.stderr


def whole_documents(page: Path) -> list[dict[str, Any]]:
    """Return the files that a page shows completely; other examples are parts of the first."""
    documents = [
        tomllib.loads(each.text) for each in examples.of_page(page) if each.language == "toml"
    ]
    return [each for each in documents if "name" in each]


def added(page: Path) -> set[str]:
    """Return the servers that a page adds."""
    return {
        command.arguments[2]
        for example in examples.of_page(page)
        if example.language == "sh"
        for command in examples.commands(example)
        if command.arguments[:2] == ("servers", "add")
    }


def without_files(text: str) -> str:
    """Return the text without names of archives, which begin as those of servers do."""
    return re.sub(r"\S+\.(?:tar\.\w+|zip|deb)", "", text)


def around(*servers: str, attached: list[str] | None = None) -> ValidationContext:
    """Return the names that an experiment may use with these servers added."""
    here = validation_context()
    return ValidationContext(
        **{
            **vars(here),
            "servers": [*here.servers, *servers],
            "attached": [*here.attached, *(attached or ())],
        }
    )


def strings(document: Mapping[str, Any], *keys: str) -> list[str]:
    """Return the list of texts below these keys, if there is one."""
    found: Any = document
    for key in keys:
        found = found.get(key, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, list) else []


def merged(base: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the base, overridden by the tables and values of the part."""
    both = dict(base)
    for key, value in part.items():
        under = both.get(key)
        if isinstance(under, dict) and isinstance(value, dict):
            both[key] = merged(under, value)
        else:
            both[key] = value
    return both


TEXTS = [each for each in examples.every() if each.language == "text"]
SEARCHED = ("mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.12", "mysql-8.0.33")

# Texts that no program prints, or none here.
NOT_PRINTED = {
    "ARCHITECTURE.md": "drawings",
    "CONTRIBUTING.md": "a command of another program",
    "SECURITY.md": "a drawing",
    "explain.md": "a formula",
    "servers.md": "shown after a download",
    "tutorial.md": "addresses, which a test of their own reads",
    "generators.md": "formulas",
}


def a_bisection(step: Found | NoChange) -> str:
    title = load("updates")["metrics"]["throughput"]["title"]
    found: Bisection = bisection(bisected([]))
    return bisection_answer(
        replace(
            found,
            spec=Bisects(members=SEARCHED, workload="updates", confidence=0.95, margin=0.02),
            metric=found.metric.replace(title=title),
            seen=(Measured(0, 1.0),) * 19,
            step=step,
        )
    )


def a_change() -> str:
    return a_bisection(Found(2, 2, 0.982, 0.787, 0.771, 0.803))


def no_change() -> str:
    return a_bisection(NoChange(0.97, 1.001, 0.99, 1.01))


def a_calibration() -> str:
    quoted = ApplicableCalibration(
        run="run", experiment="load-data", is_of_experiment=True,
        ended_utc="2026-01-02T10:00:00Z", age_s=3.2 * 86_400, verdicts=60, false=1, refused=0,
        low=0.00042, high=0.089, smallest=(0.041, 0.041), blocks=10, stale=(),
    )  # fmt: skip
    line = head_line(replace(compare_run(study()), calibrations=(quoted,)))
    assert line is not None
    return line


def a_count() -> str:
    sides = (counts_treatment("mysql-5.6.24", 40_803), counts_treatment("mysql-5.7.22", 45_940))
    (group,) = compare_counts(sides, "server", "mysql-5.6.24")
    ratio = RatioEstimate(1.1259, 1.1255, 1.1263, 2, 0.95, None)
    return counts_sentence(replace(group.comparisons[0], ratio=ratio))


def counts_treatment(server: str, instructions: float) -> TreatmentStarts:
    return treatment(server, [start(instructions, instructions)] * 2)


def counted_values() -> str:
    values = {"old": {"1": 40_803, "2": 40_810}, "new": {"1": 43_455, "2": 43_460}}
    (found,) = compare_counted(values, base="old", direction="lower", margin=0.002, alpha=0.05)
    return external_sentence(found, 0.002, "instructions")


def a_look() -> str:
    decided = InterimRatio(label="mysql-5.7.22", ratio=0.774, low=0.731, high=0.820)
    undecided = InterimRatio(label="mysql-8.0.33", ratio=0.962, low=0.921, high=1.005)
    found = look(3, closed("mysql-5.7.22", "regression"), n_open=1)
    ahead = VisibleChanges(8, 0.032, 0.032)
    review = review_text(replace(found, ratios=(undecided,), visible=ahead))
    of_fixed_run = block_end_text(
        BlockEnded(3, 8, (decided, undecided), replace(ahead, smallest=0.025))
    )
    return f"{review}; {Forecast(0.0, 720.0, 1860.0).left(0.0)} left\n{of_fixed_run}"


def the_base_against_itself() -> str:
    estimate = RatioEstimate(1.004, 0.981, 1.028, 4, 0.95, 0.01, "any", 0.6)
    return aa_text(AaTrials((GroupAaTrials("a", {}, "a", 4, 4, estimate),), estimate))


def a_group() -> str:
    (seen,) = shown(change(40, 0.96)).changes
    return group_text(ChangeGroup("mysql-8.0.33", (seen,) * 7, 12, -0.04, -0.19))


def an_unsteady_side() -> str:
    unsteady, steady = trial("unsteady", FALLS, DIRTY), trial("steady")
    candidate = [unsteady] * 7 + [steady] * 3
    names = ("mysql-5.6.24", "mysql-9.7.4")
    return f"inconclusive, {unsteady_sides([steady] * 10, candidate, names=names)}"


PRINTED: dict[str, tuple[Callable[[], str], ...]] = {
    "analyze.md": (counted_values,),
    "bisect.md": (a_change, no_change),
    "calibrate.md": (a_calibration,),
    "count.md": (a_count,),
    "design.md": (a_look, the_base_against_itself),
    "history.md": (a_group,),
    "steady-state.md": (an_unsteady_side,),
}


def test_every_text_is_printed_or_has_a_reason() -> None:
    texts: dict[str, list[Example]] = {}
    for example in TEXTS:
        texts.setdefault(example.page.name, []).append(example)
    assert set(texts) == {*PRINTED, *NOT_PRINTED}
    assert {page: len(texts[page]) for page in PRINTED} == {
        page: len(printing) for page, printing in PRINTED.items()
    }


@pytest.mark.parametrize("page", PRINTED)
def test_a_text_is_what_is_printed(page: str) -> None:
    shown_there = [each.text for each in TEXTS if each.page.name == page]
    for text, printing in zip(shown_there, PRINTED[page], strict=True):
        begun, left_out, _ = " ".join(text.split()).partition(" ...")
        output = " ".join(printing().split())
        assert output.startswith(begun) if left_out else output == begun


def test_addresses_are_read() -> None:
    (example,) = (each for each in TEXTS if each.page.name == "tutorial.md")
    for address in example.text.split():
        parse_dsn(AttachedServer("staging", "mysql", address))
