"""Test the files that killed writers of a store leave."""

from __future__ import annotations

import os
from pathlib import Path

from millrace import atomic_file
from millrace.store.store import Store


def test_opening_a_store_removes_the_drafts_of_killed_writers(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store.open(path) as store:
        sha256 = store.artefacts.keep(b"kept")
        places = [store.artefacts.path(sha256), store.report_path("killed")]
    for place in places:
        child = os.fork()
        if child == 0:
            with atomic_file.atomic_write(place) as draft:
                draft.write_text("half")
                os._exit(9)
        os.waitpid(child, 0)
    left = [draft for place in places for draft in place.parent.glob(".*")]
    assert len(left) == 2
    with atomic_file.atomic_write(places[0].with_name("written")) as written:
        left = [draft for place in places for draft in place.parent.glob(".*")]
        Store.open(path, read_only=True).close()
        assert [draft for draft in left if not draft.exists()] == []
        Store.open(path).close()
        assert [draft for draft in left if draft.exists()] == [written.readlink()]
    assert places[0].read_bytes() == b"kept"
