"""Migrate the schema when an older store is opened; each file in ``versions`` is one revision.

A new store gets the tables of ``schema``, whose naming convention names all constraints.
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


def upgrade(connection: Connection) -> None:
    """Migrate the store on ``connection`` inside the caller's transaction."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
