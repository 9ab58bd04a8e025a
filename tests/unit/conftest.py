"""Keep perf from unit tests, and make empty stores by copying one."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from millrace.collect import profile
from millrace.errors import Unavailable
from millrace.store import database

# What they test is how a store is made.
MIGRATING = {
    Path(__file__).parent / "store" / f"test_{name}.py" for name in ("database", "private", "store")
}


@pytest.fixture(autouse=True)
def _no_perf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no host have a usable perf, so that a plan has the same trials on all of them."""

    def refuse() -> None:
        raise Unavailable("perf is not usable in a unit test")

    monkeypatch.setattr(profile, "require_usable", refuse)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the content of a new store, made by all migrations."""
    path = tmp_path_factory.mktemp("empty") / "results.sqlite"
    database.open_engine(path, create=True, read_only=False).dispose()
    return path.read_bytes()


@pytest.fixture(scope="module", autouse=True)
def _copied_stores(request: pytest.FixtureRequest, empty_store: bytes) -> Iterator[None]:
    """Fill each new store with a copy of the empty one, but where making it is what is tested.

    The migrations would take 25 ms each time.
    """
    if request.path in MIGRATING:
        yield
        return
    bring_up_to_date = database._bring_up_to_date

    def copied(path: Path, uri: str, *, read_only: bool) -> None:
        with suppress(OSError):  # the store says so itself
            if not read_only and path.is_file() and path.stat().st_size == 0:
                path.write_bytes(empty_store)
        bring_up_to_date(path, uri, read_only=read_only)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_bring_up_to_date", copied)
        yield
