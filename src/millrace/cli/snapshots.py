"""``millrace snapshots``: list and remove the data directories that are kept for trials."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from millrace import paths, sizes
from millrace.cli.console import err, plain_table, print_json, print_table
from millrace.errors import UserError
from millrace.servers import snapshots
from millrace.servers.snapshots import Kept
from millrace.utc import utc_text


@click.group("snapshots")
def command() -> None:
    """List and remove the loaded data directories that are kept for the next trial.

    Trials make them. The least recently used go when all together take more than
    MILLRACE_SNAPSHOTS_LIMIT (such as 50G; with 0 no more are kept), or, where that is not set, more
    than half of the free space or 100 GB.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(as_json: bool) -> None:
    """What is kept, the least recently used first: that is the order in which they go."""
    snapshots.reap()
    kept = snapshots.listing()
    if as_json:
        print_json([_as_data(each) for each in kept])
        return
    if not kept:
        err.print(f"{paths.snapshots_dir()} holds no snapshots", markup=False)
        return
    table = plain_table("snapshot", "on disk", "made in", "last used", "data")
    for each in kept:
        made = "" if each.snapshot is None else f"{each.snapshot.made_s:.1f} s"
        table.add_row(
            each.name,
            sizes.readable(each.allocated_bytes),
            made,
            _instant(each.used_s),
            _contents(each),
        )
    print_table(table)
    held = sum(each.allocated_bytes for each in kept)
    limit = snapshots.limit_bytes()
    err.print(f"{sizes.readable(held)} of at most {sizes.readable(limit)}")


@command.command("remove")
@click.argument("names", nargs=-1, metavar="SNAPSHOT...")
@click.option("--all", "every", is_flag=True, help="All of them.")
def remove_command(names: tuple[str, ...], every: bool) -> None:
    """Remove snapshots; the next trial that wants one makes it anew."""
    if bool(names) == every:
        raise UserError("give the names of snapshots, or --all")
    snapshots.reap()
    for name in (
        [kept.name for kept in snapshots.listing()] if every else list(dict.fromkeys(names))
    ):
        snapshots.remove(name)
        err.print(f"removed {name}")


def _as_data(kept: Kept) -> dict[str, Any]:
    """All that is known of a snapshot but its password."""
    snapshot = kept.snapshot
    return {
        "name": kept.name,
        "damage": kept.damage,
        "allocated_bytes": kept.allocated_bytes,
        "used_utc": _instant(kept.used_s),
        "made_utc": None if snapshot is None else snapshot.made_utc,
        "made_s": None if snapshot is None else snapshot.made_s,
        "bytes": None if snapshot is None else snapshot.bytes,
        "key": None if snapshot is None else snapshot.key.parts,
        "facts": None if snapshot is None else snapshot.facts,
    }


def _contents(kept: Kept) -> str:
    """What tells a snapshot from others of the same server, in one line."""
    if kept.snapshot is None or kept.damage is not None:
        return f"damaged: {kept.damage}"
    parts = kept.snapshot.key.parts
    named = [f"{name}={value}" for name, value in _plain(parts["data"])]
    named += [name if value is None else f"{name}={value}" for name, value in parts["options"]]
    return ", ".join(named)


def _plain(data: dict[str, Any]) -> list[tuple[str, Any]]:
    """The entries of a snapshot's data that fit into a line."""
    return [(k, v) for k, v in sorted(data.items()) if isinstance(v, (str, int, float, bool))]


def _instant(seconds: float) -> str:
    return utc_text(datetime.fromtimestamp(seconds, UTC))
