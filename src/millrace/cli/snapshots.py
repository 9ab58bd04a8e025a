"""Provide ``millrace snapshots``: list and remove the data directories that trials restore."""

from datetime import UTC, datetime
from typing import Any

import click

from millrace import paths
from millrace.app import servers as use_case
from millrace.cli.console import err, plain_table, print_json, print_table
from millrace.quantities import readable_size, utc_text
from millrace.servers import snapshots
from millrace.servers.snapshots import SnapshotListing
from millrace.shown_text import shown_line


@click.group("snapshots")
def command() -> None:
    """List and remove snapshots: loaded data directories that trials save and restore.

    millrace removes the least recently used ones when all snapshots take more than
    MILLRACE_SNAPSHOTS_LIMIT (such as 50G; 0 keeps none). The default limit is half of the free
    space, at most 100 GB.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(as_json: bool) -> None:
    """List snapshots, the least recently used first: millrace removes them in this order."""
    snapshots.named_limit_bytes()
    kept = use_case.list_snapshots()
    if as_json:
        print_json([_as_data(each) for each in kept])
        return
    for waiting in use_case.list_kept():
        size = readable_size(waiting.allocated_bytes())
        name, trial = waiting.directory.name, shown_line(waiting.trial)
        err.print(f"kept for trial {trial}, which will resume with it: {name} ({size})")
    if not kept:
        err.print(f"{paths.snapshots_dir()}: no snapshots")
        return
    table = plain_table("snapshot", "on disk", "made in", "last used", "data")
    for each in kept:
        size = readable_size(each.allocated_bytes)
        made = "" if each.snapshot is None else f"{each.snapshot.made_s:.1f} s"
        table.add_row(each.name, size, made, _instant(each.used_s), _contents(each))
    print_table(table)
    total = sum(each.allocated_bytes for each in kept)
    limit = snapshots.limit_bytes()
    err.print(f"{readable_size(total)} of at most {readable_size(limit)}")


@command.command("remove")
@click.argument("names", nargs=-1, metavar="SNAPSHOT...")
@click.option("--all", "every", is_flag=True, help="Remove all snapshots.")
def remove_command(names: tuple[str, ...], every: bool) -> None:
    """Remove snapshots; the next trial that needs one creates it again.

    This also removes data directories that are kept for interrupted trials in loops. Such a trial
    starts from the beginning.
    """
    for name in use_case.remove_snapshots(names, every=every):
        err.print(f"removed {name}")


def _as_data(kept: SnapshotListing) -> dict[str, Any]:
    """Return a snapshot for JSON, without its password."""
    snapshot = kept.snapshot
    return {
        "name": kept.name,
        "damage": kept.damage,
        "allocated_bytes": kept.allocated_bytes,
        "used_utc": _instant(kept.used_s),
        "made_utc": None if snapshot is None else snapshot.made_utc,
        "made_s": None if snapshot is None else snapshot.made_s,
        "bytes": None if snapshot is None else snapshot.bytes,
        "key": None if snapshot is None else snapshot.key.parts.to_json(),
        "facts": None if snapshot is None else snapshot.facts,
    }


def _contents(kept: SnapshotListing) -> str:
    """Return the data parameters and options of a snapshot in one line, or its damage."""
    if kept.snapshot is None or kept.damage is not None:
        return f"damaged: {kept.damage}"
    parts = kept.snapshot.key.parts
    fitting = ((k, v) for k, v in sorted(parts.data.items()) if isinstance(v, str | int | float))
    named = [f"{name}={value}" for name, value in fitting]
    named += [str(name) if value is None else f"{name}={value}" for name, value in parts.options]
    return ", ".join(named)


def _instant(seconds: float) -> str:
    return utc_text(datetime.fromtimestamp(seconds, UTC))
