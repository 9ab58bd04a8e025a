"""Test sockets of attached servers that another user may have put in the right one's place."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from millrace.errors import TrialFailed
from millrace.loadgen import client
from millrace.loadgen.spec import Connection, LoadSpec, Statement
from millrace.model.servers import AttachedServer
from millrace.servers.attached import AttachedInstance
from tests.support.hostile_mysql import Login, answers, serving

PASSWORD = "a password that nobody else has"
WANTS_PASSWORD = Login(b"caching_sha2_password", (b"\x01\x04",))
STRANGER, SERVER_USER = 54_321, 54_322

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users: needs root")


def ask_from_python(place: Path, *, allowed: bool) -> None:
    dsn = f"mysql://root:{quote(PASSWORD)}@/?socket={quote(str(place))}"
    dsn += "&allow-unverified=yes" if allowed else ""
    AttachedInstance(AttachedServer("theirs", "mysql", dsn)).version()


def ask_from_the_load_generator(place: Path, *, allowed: bool) -> None:
    connection = Connection("root", PASSWORD, socket=place, allow_unverified=allowed)
    client.run(LoadSpec(connection, (), (Statement("ask", ("SELECT VERSION()",), 20),)), limit_s=30)


Ask = Callable[..., None]
both = pytest.mark.parametrize("ask", [ask_from_python, ask_from_the_load_generator])


@dataclass(frozen=True)
class Place:
    """A listening ``socket`` of the user ``owner`` below directories, each with its mode and owner.

    The further fields are the path by which a client reaches it, and the user as whom it listens.
    """

    directories: tuple[tuple[str, int, int], ...]
    owner: int = 0
    link: tuple[str, str, int] | None = None
    asked: str = "socket"
    listens_as: int | None = None

    def make(self, below: Path) -> Path:
        """Make the directories and return the last one."""
        for name, mode, owner in self.directories:
            below /= name
            below.mkdir()
            below.chmod(mode)
            os.chown(below, owner, owner)
        return below


SAFE = {
    "a directory of root's": Place((("d", 0o755, 0),)),
    "of the server's user": Place((("d", 0o755, SERVER_USER),), SERVER_USER, None, "socket"),
    "where it listens as that user": Place(
        (("d", 0o755, SERVER_USER),), SERVER_USER, listens_as=SERVER_USER
    ),
    "a shared one, and root's": Place((("d", 0o1777, 0),)),
    "behind a link of root's": Place((("d", 0o755, 0),), 0, ("link", "d", 0), "link/socket"),
    "with a way back": Place((("d", 0o755, 0),), 0, None, "../d/./socket"),
}
UNSAFE = {
    "all may replace it": (Place((("d", 0o777, 0),)), "other users can write"),
    "its group may replace it": (Place((("d", 0o775, 0),)), "other users can write"),
    "a shared one, and a stranger's": (
        Place((("d", 0o1777, 0),), STRANGER, listens_as=STRANGER),
        f"belongs to the user {STRANGER}",
    ),
    "in a directory that a stranger made in a shared one": (
        Place((("d", 0o1777, 0), ("e", 0o755, STRANGER)), STRANGER, listens_as=STRANGER),
        f"belongs to the user {STRANGER}",
    ),
    "below a directory that all may rename": (
        Place((("d", 0o777, 0), ("e", 0o755, 0))),
        "other users can write",
    ),
    "behind a link of a stranger's": (
        Place((("d", 0o1777, 0),), 0, ("d/link", "../d", STRANGER), "link/socket"),
        f"link belongs to the user {STRANGER}",
    ),
    "another user listens": (
        Place((("d", 0o755, 0),), listens_as=STRANGER),
        f"the user {STRANGER} listens there",
    ),
}


def was_given(ask: Ask, place: Place, below: Path, *, allowed: bool = False) -> bool:
    """Return True where the server at a place got the password."""
    below.chmod(0o755)
    directory = place.make(below)
    if place.link is not None:
        name, target, owner = place.link
        (below / name).symlink_to(target)
        os.lchown(below / name, owner, owner)
    with serving(
        answers(b"8.0.33"), WANTS_PASSWORD, place=directory / "socket", uid=place.listens_as
    ) as server:
        os.chown(directory / "socket", place.owner, place.owner)
        at_link = place.link is not None and "/" not in place.link[0]
        try:
            ask((below if at_link else directory) / place.asked, allowed=allowed)
        finally:
            given = any(PASSWORD.encode() in each for each in server.logins)
    return given


@needs_root
@both
@pytest.mark.parametrize("name", SAFE)
def test_a_socket_that_nobody_else_can_have_made_gets_the_password(
    ask: Ask, name: str, tmp_path: Path
) -> None:
    assert was_given(ask, SAFE[name], tmp_path)


@needs_root
@both
@pytest.mark.parametrize("name", UNSAFE)
def test_a_socket_that_another_user_may_have_made_gets_no_password(
    ask: Ask, name: str, tmp_path: Path
) -> None:
    place, why = UNSAFE[name]
    with pytest.raises(TrialFailed, match="another server may have taken its socket") as caught:
        was_given(ask, place, tmp_path)
    assert why in caught.value.message
    assert "let it listen in a directory that only its user can write" in caught.value.message
    assert PASSWORD not in caught.value.message
    below = tmp_path / "again"
    below.mkdir()
    assert was_given(ask, place, below, allowed=True)


@both
def test_a_user_decides_for_directories_that_others_write(ask: Ask, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    place = shared / "socket"
    with serving(answers(b"8.0.33"), WANTS_PASSWORD, place=place) as server:
        with pytest.raises(TrialFailed, match=f"other users can write {shared}"):
            ask(place, allowed=False)
        assert not any(PASSWORD.encode() in each for each in server.logins)
        ask(place, allowed=True)
        assert any(PASSWORD.encode() in each for each in server.logins)


@both
def test_a_proof_goes_to_any_socket(ask: Ask, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with serving(answers(b"8.0.33"), place=tmp_path / "socket") as server:
        ask(tmp_path / "socket", allowed=False)
    assert server.logins
    assert not any(PASSWORD.encode() in each for each in server.logins)
