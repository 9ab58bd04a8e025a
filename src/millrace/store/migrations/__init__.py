"""Migrate the schema when a store is opened; each file in ``versions`` is one revision.

The naming convention of ``schema`` names their constraints.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def revisions() -> tuple[str, ...]:
    """Return every revision that this millrace knows, newest first."""
    scripts = ScriptDirectory.from_config(_config())
    return tuple(script.revision for script in scripts.walk_revisions())


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Migrate the store on ``connection`` to ``revision``, inside the caller's transaction."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
