"""Test that an import changes no history of this host."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace.analysis.history.recording import points_of
from millrace.store.history_records import ChangeRecord, HistoryPart, PointRecord, SeriesRecord
from millrace.store.store import Store
from tests.support.builders import keep
from tests.support.called import Done, millrace
from tests.support.forged_archives import edited, forged
from tests.support.history_points import run_of

LOCAL, FORGED = "nightly-1", "elsewhere-1"
N_POINTS = 24


def record(store: Store, run_id: str, label: str) -> None:
    stored = store.load_run(run_id)
    made = points_of(stored, reference=None, label=label, at_utc=stored.run.created_utc)
    store.histories.record(made.part)


def with_points(part: HistoryPart, ratios: list[float], run_id: str) -> HistoryPart:
    """Return the part with a point of each of these ratios for each point that it has."""
    points = [
        (
            of,
            replace(point, label=f"c{n}", place=n, ratio=ratio, low=None, high=None, run_id=run_id),
        )
        for of, point in part.points
        for n, ratio in enumerate(ratios)
    ]
    return replace(part, points=tuple(points))


def stepped(seed: int, step: float) -> list[float]:
    source = random.Random(seed)
    half = N_POINTS // 2
    return [(step if n >= half else 1.0) * source.gauss(1, 0.004) for n in range(N_POINTS)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with a store whose local history has a step that was found."""
    keep(run_of(LOCAL), tmp_path / "results.sqlite")
    with Store.open(tmp_path / "results.sqlite") as store:
        stored = store.load_run(LOCAL)
        made = points_of(stored, reference=None, label="x", at_utc=stored.run.created_utc).part
        store.histories.record(with_points(made, stepped(1, 0.8), LOCAL))
    assert call(tmp_path, "history", "detect").returncode == 0
    return tmp_path


def call(place: Path, *arguments: str, status: int | None = None) -> Done:
    return millrace(*arguments, "--store", place / "results.sqlite", status=status)


def archive(place: Path, edit: Callable[[Any], object] = lambda _raw: None) -> Path:
    """Return an archive with a run of the same experiment, and a point whose part is edited."""
    return forged(
        place / "theirs",
        run_of(FORGED, ratio=1.0),
        record=lambda store: record(store, FORGED, "theirs"),
        edit_history=edit,
    )


def local_parts(
    place: Path,
) -> tuple[list[SeriesRecord], list[tuple[PointRecord, ...]], list[ChangeRecord]]:
    """Return everything that the store holds of histories of this host."""
    with Store.open(place / "results.sqlite", read_only=True) as store:
        histories = [each for each in store.histories.read() if each.series.origin == "local"]
        ids = {each.series.id for each in histories}
        changes = [each for each in store.histories.changes() if each.series in ids]
    return [each.series for each in histories], [each.points for each in histories], changes


def flatten(raw: Any) -> None:
    """Add forged points, between the local ones and after them, that show no step."""
    _, first = raw["points"][0]
    for series in raw["series"]:
        for n in range(60):
            moved = {**first, "label": f"f{n}", "place": n + 100, "ratio": 0.9 + n % 2 / 100}
            raw["points"].append([series["id"], moved])


def same_labels(raw: Any) -> None:
    """Take the labels of later local versions."""
    _, first = raw["points"][0]
    for series in raw["series"]:
        for n in range(N_POINTS, N_POINTS + 5):
            raw["points"].append([series["id"], {**first, "label": f"c{n}", "place": n}])


def own_change(raw: Any) -> None:
    """Settle the local change by one of the same id."""
    series, point = raw["points"][0]
    raw["changes"] = [
        {
            "id": "TO-REPLACE", "series": series, "label": point["label"],
            "earliest": point["label"], "latest": point["label"], "ratio": 1.0, "low": 0.99,
            "high": 1.01, "n_points": 80, "found_utc": point["at_utc"], "state": "withdrawn",
            "reason": "nothing to see", "remeasured": None, "note": "known",
        }
    ]  # fmt: skip


EDITS: dict[str, Callable[[Any], object]] = {
    "plain": lambda _raw: None,
    "margin": lambda raw: [each.update(margin=0.5) for each in raw["series"]],
    "title": lambda raw: [each.update(title="x", experiment="y") for each in raw["series"]],
    "unit": lambda raw: [each.update(unit="ms", direction="lower") for each in raw["series"]],
    "state": lambda raw: [each.update(host_id="h", facts={"a": 1}) for each in raw["states"]],
    "points": flatten,
    "labels": same_labels,
    "future": lambda raw: [p.update(at_utc="9999-12-31T23:59:59Z") for _, p in raw["points"]],
    "past": lambda raw: [p.update(at_utc="0001-01-01T00:00:00Z") for _, p in raw["points"]],
    "origin": lambda raw: [
        each.update(origin="local") for each in (*raw["series"], *(p for _, p in raw["points"]))
    ],
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_import_changes_nothing_of_a_local_history(edit: str, place: Path) -> None:
    before = local_parts(place)
    assert [each.state for each in before[2]].count("candidate") > 0
    call(place, "results", "import", str(archive(place, EDITS[edit])), status=0)
    assert local_parts(place) == before
    assert call(place, "history", "detect").returncode == 0
    assert local_parts(place) == before


def test_a_change_of_an_import_does_not_settle_a_local_one_when_it_has_its_id(place: Path) -> None:
    before = local_parts(place)
    wanted = before[2][0].id

    def forge(raw: Any) -> None:
        own_change(raw)
        raw["changes"][0]["id"] = wanted

    assert call(place, "results", "import", str(archive(place, forge))).returncode == 0
    assert local_parts(place) == before
    assert call(place, "history", "acknowledge", wanted, "--note", "mine").returncode == 0
    noted = [each for each in local_parts(place)[2] if each.id == wanted]
    assert [(each.state, each.note) for each in noted] == [("candidate", "mine")]


def test_a_change_is_acknowledged_by_its_id_when_an_import_has_it_as_a_label(place: Path) -> None:
    wanted = local_parts(place)[2][0].id

    def forge(raw: Any) -> None:
        for _, point in raw["points"]:
            point.update(label=wanted)
        own_change(raw)
        raw["changes"][0].update(id="c1", note=None)

    assert call(place, "results", "import", str(archive(place, forge))).returncode == 0
    assert call(place, "history", "acknowledge", wanted, "--note", "mine").returncode == 0
    assert [each.note for each in local_parts(place)[2] if each.id == wanted] == ["mine"]


def test_a_local_run_is_recorded_when_an_import_has_taken_its_label(place: Path) -> None:
    assert call(place, "results", "import", str(archive(place, same_labels))).returncode == 0
    keep(run_of("nightly-2", created_utc="2026-03-01T00:00:00Z"), place / "results.sqlite")
    call(place, "history", "record", "latest", "--label", f"c{N_POINTS}", status=0)
    assert f"c{N_POINTS}" in [each.label for each in local_parts(place)[1][0]]


def test_recording_an_imported_run_changes_no_local_history(place: Path) -> None:
    """Its local namesake was removed, whose points stay."""
    file = place / "own.zip"
    assert call(place, "results", "export", LOCAL, "--output", str(file)).returncode == 0
    assert call(place, "results", "remove", LOCAL, "--yes").returncode == 0
    before = local_parts(place)
    edited(file, lambda raw: raw["run"].update(margin=0.5))
    assert call(place, "results", "import", str(file)).returncode == 0
    assert local_parts(place) == before
    again = call(place, "history", "record", LOCAL, "--label", "c1")
    assert "already" in again.stderr  # by the points that came with it
    assert local_parts(place) == before
    assert call(place, "history", "forget", LOCAL).stderr.startswith("removed")
    assert local_parts(place) == ([], [], [])
    assert "(imported)" in call(place, "history", "forget", LOCAL).stderr


def test_imported_series_are_shown_and_searched_apart(place: Path) -> None:
    def step(raw: Any) -> None:
        _, first = raw["points"][0]
        raw["points"] = [
            [series["id"], {**first, "label": f"c{n}", "place": n, "ratio": ratio}]
            for series in raw["series"]
            for n, ratio in enumerate(stepped(2, 0.7))
        ]

    alone = json.loads(call(place, "history", "show", "--json").stdout)
    assert call(place, "results", "import", str(archive(place, step))).returncode == 0
    detected = call(place, "history", "detect")
    assert "of them imported" in detected.stdout
    document = json.loads(call(place, "history", "show", "--json").stdout)
    series: dict[str, list[Any]] = {origin: [] for origin in ("local", "imported")}
    for each in document["series"]:
        series[each["origin"]].append(each)
        assert {point["origin"] for point in each["points"]} == {each["origin"]}
    assert len(series["local"]) == len(series["imported"]) > 0
    assert [each["name"] for each in series["imported"]] == [
        f"imported: {each['name']}" for each in series["local"]
    ]
    for group in document["groups"]:
        assert group["n_series"] <= len(series[group["origin"]])
    assert [each["origin"] for each in document["groups"]] == ["local", "imported"]
    found = {each["id"] for one in series["imported"] for each in one["changes"]}
    assert found
    assert all(each.startswith("imported-") for each in found)
    assert series["local"] == alone["series"]
    assert [each for each in document["groups"] if each["origin"] == "local"] == alone["groups"]
    text = call(place, "history", "show").stdout
    lines = [line.split()[0] for line in text.splitlines() if "load" in line]
    assert lines.index("imported:") > 0
    page = place / "page.html"
    assert call(place, "history", "show", "--html", str(page)).returncode == 0
    assert "imported: nothing of it was measured here" in page.read_text(encoding="utf-8")


def test_a_change_of_an_imported_series_is_not_confirmed_here(place: Path) -> None:
    def forge(raw: Any) -> None:
        own_change(raw)
        raw["changes"][0].update(id="c1", state="candidate", reason="")

    assert call(place, "results", "import", str(archive(place, forge))).returncode == 0
    done = call(place, "history", "confirm", "imported-c1", status=2)
    assert "imported series, measured on another host" in done.stderr
    with Store.open(place / "results.sqlite") as store:
        (change,) = store.histories.read([next(iter(local_parts(place)[0])).id])
        assert change.series.origin == "local"
    assert "history confirm imported" not in call(place, "history", "show").stdout


def test_an_import_of_another_unit_does_not_join_an_imported_series(place: Path) -> None:
    assert call(place, "results", "import", str(archive(place))).returncode == 0
    other = forged(
        place / "others",
        run_of("elsewhere-2"),
        record=lambda store: record(store, "elsewhere-2", "v2"),
        edit_history=EDITS["unit"],
    )
    done = call(place, "results", "import", str(other), status=2)
    assert "differs from the series with the same id" in done.stderr


def test_what_others_had_imported_stays_apart_from_what_they_measured(place: Path) -> None:
    assert call(place, "results", "import", str(archive(place))).returncode == 0
    both = place / "both.zip"
    assert call(place, "results", "export", LOCAL, FORGED, "--output", str(both)).returncode == 0
    with Store.open(place / "third.sqlite") as third:
        assert set(third.import_file(both).added) == {LOCAL, FORGED}
        ids = {each.id for each in third.histories.series()}
        assert {each.origin for each in third.histories.series()} == {"imported"}
    assert {each.count("imported-") for each in ids} == {1, 2}
