"""Read the tables ``[tls.NAME]`` of an experiment.

They set the encryption of sessions with attached servers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from millrace.experiment import diagnostics as door
from millrace.experiment.diagnostics import Diagnostics
from millrace.tls import InvalidTls, Tls, tls_settings

_KEYS = ("mode", "ca", "allow_unverified")


def read_tls(
    found: Diagnostics, document: Mapping[str, Any], attached: Collection[str]
) -> Mapping[str, Tls]:
    """Read the TLS settings of each server that has a table, and report errors."""
    tables = door.table(found, "tls", document.get("tls", {}))
    return {name: _tls(found, f"tls.{name}", name, raw, attached) for name, raw in tables.items()}


def _tls(found: Diagnostics, where: str, name: str, raw: object, attached: Collection[str]) -> Tls:
    table = found.keys(where, door.table(found, where, raw), _KEYS)
    if name not in attached:
        found.add(where, f"{name!r} is no attached server", "the name of an attached server")
    allowed = table.get("allow_unverified", False)
    if not isinstance(allowed, bool):
        found.add(
            f"{where}.allow_unverified", f"{door.shown(allowed)} is not right", "true or false"
        )
        allowed = False
    try:
        return tls_settings(table.get("mode"), table.get("ca"), allow_unverified=allowed)
    except InvalidTls as wrong:
        said = wrong.message
        if wrong.value is not None:
            said = f"{door.shown(wrong.value)} {said}"
        found.add(f"{where}.{wrong.key}", said, wrong.expected)
        return Tls()
