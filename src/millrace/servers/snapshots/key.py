"""What tells two templates apart: everything that may shape the files of a data directory.

The key is made of the build (its name, version and the digest of its program as it is now), the
user it runs as, millrace's version (which decides how a data directory is initialised), the
options and the data. All options count, but for the family's ``traceless_options``, which are
known to leave no trace in the files of a server that was stopped cleanly: an option nobody thought
of makes another template, which costs time; one wrongly ignored would make a wrong measurement.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from millrace import __version__, databases
from millrace.databases.mysql import option_names
from millrace.model.servers import FittedOptions, InstalledServer, Option
from millrace.servers.provenance import sha256

FORMAT = 4  # of a template; one of another format is never found, and is evicted like any other

# A path that leads out of the data directory, also inside a list such as innodb_data_file_path's.
_LEADS_AWAY = re.compile(r"(?:^|[;,:=])\s*(?:/|~|\.\.(?:/|$))|/\.\.(?:/|$)")
_MAY_LEAD_AWAY = re.compile(r"(?:admin_)?(?:ssl|tls)_.*|plugin_dir|(?:slow_query|general)_log_file")


@dataclass(frozen=True)
class TemplateKey:
    """What a template is made for. ``parts`` is plain data, kept in the template's manifest."""

    server: str
    parts: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """The SHA-256 of all parts, in hex."""
        text = json.dumps(self.parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def name(self) -> str:
        """What the template is called, and its directory."""
        return f"{re.sub(r'[^A-Za-z0-9.-]', '_', self.server)}-{self.digest[:12]}"


def key(
    server: InstalledServer, options: FittedOptions, data: Mapping[str, Any], *, user: str
) -> TemplateKey:
    """The key of a data directory that ``server`` made with ``options`` as ``user``, and that holds
    ``data``: plain data (JSON) that tells it from every other: tables, values, seed, generator."""
    parts = {
        "format": FORMAT,
        "millrace": __version__,
        "server": {
            "name": server.name,
            "family": server.family,
            "version": server.version,
            "program_sha256": sha256(server.program),
            "artefacts": [artefact.sha256 for artefact in server.provenance.artefacts],
        },
        "user": user,
        "options": _counting(options.applied, databases.get(server.family).traceless_options),
        "data": json.loads(json.dumps(data)),
    }
    return TemplateKey(server.name, parts)


def leads_away(options: Iterable[Option]) -> Option | None:
    """An option that puts files of the server outside of its data directory, where a template does
    not reach; None if there is none."""
    for option in options:
        names = option_names.forms(option.name)
        if any(_MAY_LEAD_AWAY.fullmatch(name) for name in names):
            continue
        if option.value is not None and _LEADS_AWAY.search(option.value):
            return option
    return None


def _counting(options: Iterable[Option], traceless: Sequence[str]) -> list[list[str | None]]:
    """Names and values of the options that count; the last of those given twice is the one."""
    counting = {
        option_names.forms(option.name)[0]: option.value
        for option in options
        if not any(fnmatch(f, t) for f in option_names.forms(option.name) for t in traceless)
    }
    return [[name, value] for name, value in sorted(counting.items())]
