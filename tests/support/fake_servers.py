"""Make fake servers and their load generator available, in this process and in workers."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from millrace.loadgen import program
from millrace.servers.instances import users
from tests.fake_family import family
from tests.fake_family import program as fake_program


def _answered(arguments: Sequence[str], given: str = "") -> dict[str, Any]:
    """Answer as the load generator does, without the time that a process takes to start."""
    answered = fake_program.answer(list(arguments), given)
    assert answered is not None
    return answered


@contextlib.contextmanager
def fakes(directory: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make fake servers and their load generator available inside the block."""
    patch.setenv("MILLRACE_LOAD", str(family.install_load_generator(directory)))
    for name in ("CACHE", "WORK", "STATE", "SNAPSHOTS"):
        patch.setenv(f"MILLRACE_{name}", str(directory / name.lower()))
    patch.setattr(program, "ask", _answered)
    # Their program is Python, which other users may be unable to reach.
    patch.setattr(users, "usable", lambda: False)
    family.register(patch)
    yield
