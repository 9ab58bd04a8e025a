"""Load the configurations that come with millrace: one TOML file each, named like the file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any


def load_builtin() -> Mapping[str, Mapping[str, Any]]:
    """Return the definition of every shipped configuration, sorted by name."""
    folder = files("millrace.servers.configurations")
    paths = [entry for entry in folder.iterdir() if entry.name.endswith(".toml")]
    return {
        path.name.removesuffix(".toml"): tomllib.loads(path.read_text(encoding="utf-8"))
        for path in sorted(paths, key=lambda entry: entry.name)
    }
