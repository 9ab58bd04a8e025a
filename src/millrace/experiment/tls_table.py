"""The table ``[tls.NAME]`` of an experiment: how sessions with an attached server are encrypted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from millrace.experiment import mistakes as door
from millrace.experiment.mistakes import Mistakes
from millrace.tls import MODES, VERIFYING, Tls

_KEYS = ("mode", "ca", "allow_unverified")


def read_tls(
    found: Mistakes, document: Mapping[str, Any], attached: Collection[str]
) -> Mapping[str, Tls]:
    """Read the TLS of each server that has a table, noting mistakes."""
    tables = door.table(found, "tls", document.get("tls", {}))
    return {name: _tls(found, f"tls.{name}", name, raw, attached) for name, raw in tables.items()}


def _tls(found: Mistakes, where: str, name: str, raw: object, attached: Collection[str]) -> Tls:
    table = found.keys(where, door.table(found, where, raw), _KEYS)
    if name not in attached:
        found.add(where, f"{name!r} is no attached server", "the name of an attached server")
    mode = table.get("mode")
    if mode not in MODES:
        said = "is missing" if mode is None else f"{door.shown(mode)} is no mode"
        found.add(f"{where}.mode", said, f"one of {', '.join(MODES)}")
        return Tls()
    allowed = table.get("allow_unverified", False)
    if not isinstance(allowed, bool):
        found.add(
            f"{where}.allow_unverified", f"{door.shown(allowed)} is not right", "true or false"
        )
        allowed = False
    return Tls(mode, _ca(found, f"{where}.ca", table.get("ca"), mode), allowed)


def _ca(found: Mistakes, where: str, ca: object, mode: str) -> Path | None:
    if ca is None:
        if mode == "verify-ca":
            found.add(where, "is missing", "a path, which mode verify-ca needs")
        return None
    path = Path(ca) if isinstance(ca, str) else Path()
    if not path.is_absolute():
        found.add(where, f"{door.shown(ca)} is not an absolute path", "a path that begins with /")
    elif mode not in VERIFYING:
        found.add(where, f"verifies nothing with mode {mode}", f"mode {' or '.join(VERIFYING)}")
    return path
