"""Test `millrace explain` on a run whose instructions were counted."""

from __future__ import annotations

from pathlib import Path

from millrace.errors import UserError
from tests.support.explained import study_run
from tests.support.reports import Page
from tests.unit.cli.observed_store import keep
from tests.unit.cli.test_explain import done, run


def test_counted_instructions_have_a_flame_graph_where_nothing_was_profiled(
    tmp_path: Path,
) -> None:
    store = keep(study_run(profiled=0, counted=True), tmp_path / "results.sqlite")
    done(run(store, "--flame-graph", str(tmp_path / "x.svg")))
    assert "instructions per statement" in (tmp_path / "x.svg").read_text("utf-8")
    error = run(store, "--folded", str(tmp_path / "x.txt")).exception
    assert isinstance(error, UserError)
    page = tmp_path / "why.html"
    done(run(store, "--html", str(page)))
    assert "explanation-1-instructions" in Page(page.read_text("utf-8")).sections
    assert 'class="flame-graph"' in page.read_text("utf-8")
