"""Waits until a server has done what it put off: dirty pages, purge, merges of the change buffer.

Work left over from one step would be done, and paid for, in the middle of the next. A server of
ours is hurried: its variables (``families/*/family.toml``, ``write_back``) make it write at once,
and are put back after; old versions would keep dirty pages below innodb_max_dirty_pages_pct for
ever. A server that is not ours is only watched.

It is settled when, in two looks at least a second apart, at most a few pages are dirty, purge has
come to the newest transaction or says that it is idle, the log's position has not moved, and the
change buffer is empty, or as large as it was for longer than any version's cycle of background work
(MariaDB from 10.5 merges only what is read). The length of the history list alone does not tell:
newer versions shorten it once in 128 batches, so an idle server keeps some. Nor does the newest
transaction where the list is all but empty: numbers jump at a restart, and 5.5 stays behind. Purge
that matters writes the log, so its position tells.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from millrace import databases
from millrace.databases.base import Pressure, WriteBack
from millrace.databases.mysql.client import ASK_LIMIT_S, count_of
from millrace.errors import TrialFailed
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances.lifecycle import Instance
from millrace.servers.snapshots import page_cache

_LOOK_EVERY_S = 0.5
_STILL_S = 1.0
_FEW_PAGES = 16  # what a server's own statistics dirty now and then
_FEW_LOGS = 16  # undo logs of its own transactions
_EMPTY_CHANGE_BUFFER_PAGES = 1  # its root page
_CYCLE_S = 12.0  # of the slowest background work: 10 s in MySQL 5.5


@dataclass(frozen=True)
class Figures:
    """What a server says it still has to do; None where its version does not say.

    ``history`` counts undo logs of committed transactions that are not freed yet. ``checkpoint`` is
    the position of the log up to which all pages are written back.
    """

    dirty_pages: int | None = None
    history: int | None = None
    change_buffer_pages: int | None = None
    log_position: int | None = None
    purged: bool | None = None
    checkpoint: int | None = None


@dataclass(frozen=True)
class Look:
    """Figures at a moment, in seconds from the beginning."""

    at_s: float
    figures: Figures


@dataclass(frozen=True)
class Quiesced:
    """How the waiting ended: ``unsettled`` says what still went on, empty when it is settled.

    ``hurried`` are the variables that were changed for it, and are as they were again.
    """

    settled: bool
    duration_s: float
    first: Figures
    last: Figures
    unsettled: tuple[str, ...]
    hurried: tuple[str, ...]


def quiesce(instance: Instance | AttachedInstance, *, limit_s: float) -> Quiesced:
    """Wait until the server has settled, for ``limit_s`` at most.

    The file system of a server of ours is written back too. Raises TrialFailed when the server does
    not answer.
    """
    began = time.monotonic()
    write_back = databases.get(instance.server.family).write_back
    looks = [Look(0.0, _ask(instance, write_back))]
    with _hurried(instance, write_back) as hurried:
        while (left := unsettled(looks)) and looks[-1].at_s < limit_s:
            time.sleep(_LOOK_EVERY_S)
            figures = _ask(instance, write_back)
            looks.append(Look(time.monotonic() - began, figures))
    if isinstance(instance, Instance):
        page_cache.write_back(instance.data_dir)
    return Quiesced(
        settled=not left,
        duration_s=time.monotonic() - began,
        first=looks[0].figures,
        last=looks[-1].figures,
        unsettled=left,
        hurried=tuple(hurried),
    )


def unsettled(looks: Sequence[Look]) -> tuple[str, ...]:
    """What still goes on, by the looks so far, the oldest first; empty when nothing does."""
    last = looks[-1]
    now = last.figures
    earlier = [look for look in looks if look.at_s <= last.at_s - _STILL_S]
    if not earlier:
        return ("it was not watched for long enough",)
    since = earlier[-1].figures
    going_on = []
    if now.dirty_pages is not None and now.dirty_pages > _FEW_PAGES:
        going_on.append(f"{now.dirty_pages} pages are dirty")
    if any(_purges(figures) for figures in (since, now)):
        going_on.append(f"purge goes on, with a history of {now.history}")
    if now.log_position != since.log_position:
        going_on.append("the log is written to")
    if _merges(looks):
        going_on.append(f"the change buffer has {now.change_buffer_pages} pages")
    return tuple(going_on)


def figures_in(text: str, write_back: WriteBack) -> Figures:
    """Return the figures in a server's answer to the family's question. Raises ValueError for a
    figure beyond 64 bits."""
    found = {
        name: matched[1]
        for name, pattern in write_back.figures.items()
        if (matched := pattern.search(text)) is not None
    }

    def number(name: str) -> int | None:
        return count_of(found[name]) if name in found else None

    purged_to, transactions_to = found.get("purged_to"), found.get("transactions_to")
    return Figures(
        dirty_pages=number("dirty_pages"),
        history=number("history"),
        change_buffer_pages=number("change_buffer_pages"),
        log_position=number("log_position"),
        checkpoint=number("checkpoint"),
        # Numbers of transactions are compared as text: 5.5 writes them in hexadecimal.
        purged=None
        if purged_to is None or transactions_to is None
        else purged_to == transactions_to or "purge_idle" in found,
    )


def _purges(figures: Figures) -> bool:
    """Whether purge is known to be behind by more than a few transactions."""
    many = figures.history is None or figures.history > _FEW_LOGS
    return figures.purged is False and many


def _merges(looks: Sequence[Look]) -> bool:
    """Whether the change buffer is being merged, or may be soon."""
    last = looks[-1]
    pages = last.figures.change_buffer_pages
    if pages is None or pages <= _EMPTY_CHANGE_BUFFER_PAGES:
        return False
    cycle = [look.figures for look in looks if look.at_s >= last.at_s - _CYCLE_S]
    watched = looks[0].at_s <= last.at_s - _CYCLE_S
    return not watched or any(figures.change_buffer_pages != pages for figures in cycle)


def _ask(instance: Instance | AttachedInstance, write_back: WriteBack) -> Figures:
    rows = instance.query(write_back.question, limit_s=ASK_LIMIT_S)
    text = rows[0][-1] if rows and rows[0] else None
    try:
        return figures_in(text or "", write_back)
    except ValueError as error:
        raise TrialFailed(
            f"{instance.server.name}: {write_back.question}: cannot understand the answer: {error}"
        ) from error


@contextlib.contextmanager
def _hurried(
    instance: Instance | AttachedInstance, write_back: WriteBack
) -> Iterator[Mapping[str, str]]:
    """Inside, a server of ours writes at once; gives the variables that were changed, with what
    they were and are again afterwards."""
    before: dict[str, str] = {}
    try:
        if isinstance(instance, Instance):
            effective = instance.effective()
            for pressure in write_back.pressure:
                value = effective.get(pressure.variable)
                wanted = None if value is None else _beyond(pressure, value)
                if value is not None and wanted is not None:
                    before[pressure.variable] = value
                    _set(instance, pressure.variable, str(wanted))
        yield before
    finally:
        for variable, value in reversed(before.items()):
            _set(instance, variable, value)


def _set(instance: Instance | AttachedInstance, variable: str, value: str) -> None:
    instance.query(f"SET GLOBAL {variable} = {value}", limit_s=ASK_LIMIT_S)


def _beyond(pressure: Pressure, value: str) -> float | None:
    """Return what the variable has to be set to; None where it is there already, or no number."""
    try:
        now = float(value)
    except ValueError:
        return None
    if pressure.at_least is not None and now < pressure.at_least:
        return pressure.at_least
    if pressure.at_most is not None and now > pressure.at_most:
        return pressure.at_most
    return None
