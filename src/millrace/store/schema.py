"""Define the tables of the results store, with SQLAlchemy Core types that all databases support.

    runs ─┬─ treatments
          └─ trials ── attempts ─┬─ steps
                                 ├─ measurements
                                 ├─ attempt_artefacts     files of the store, by hash
                                 └─ instances ─┬─ servers          one row a build, shared
                                               └─ variable_sets    one row a set, shared

    history_series ─┬─ history_points ──┬── history_recordings     one row a recorded run
                    └─ history_changes  └── history_states         one row a state, shared

A treatment's id is the same in every run of an experiment, so its key includes the run's id. A
trial's id contains its run's id and is unique. Levels, options and host facts are JSON: a new
factor, role or fact needs no new column. A server has hundreds of effective variables, which rarely
differ between starts. The variables that can be equal are stored once, under their hash.

An imported run has ``imported_utc``. Its statements are not verified: millrace does not resume it,
and does not use it as evidence about local runs. Its points have separate series, states, changes
and recordings with ``origin`` = ``imported``: an import never refers to local rows or changes them.

Runs and ended attempts have a digest of their rows, ``sha256``, which detects damage (see
``digests``). A row without a digest counts as changed.

Histories have many points, which stay when their runs are removed. The table of points is clustered
by its primary key in the order of reading, series by series. Its rows are small: data that the
points of a run or a series share is in other tables.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import JSON, BigInteger, Column, Float, ForeignKey, Integer, String, Table, Text
from sqlalchemy.types import TypeEngine

HEAD = "0001"
"""The schema revision of these tables: the newest in ``migrations/versions``."""

_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = sa.MetaData(naming_convention=_NAMES)

alembic_version = Table(
    "alembic_version",
    sa.MetaData(),
    Column("version_num", String(32)),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""The table with the store's schema revision, as Alembic defines it."""


def _columns(kind: TypeEngine[Any] | type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    """Return a NOT NULL column of this type for each name."""
    return [Column(name, kind, nullable=False) for name in names]


runs = Table(
    "runs",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("digest", String(128), nullable=False),
    *_columns(Text, "name", "title", "scale"),
    Column("created_utc", String(32), nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("blocks", Integer, nullable=False),
    Column("margin", Float, nullable=False),
    Column("host_id", String(128), nullable=False),
    *_columns(JSON, "host_facts", "versions", "spec"),
    *_columns(Text, "experiment_text", "millrace_command"),
    Column("imported_utc", String(32)),
    Column("sha256", String(64)),
    sa.Index(None, "digest", "host_id"),
)

treatments = Table(
    "treatments",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("id", String(128), primary_key=True),
    Column("position", Integer, nullable=False),
    *_columns(JSON, "levels", "resolved"),
)

IS_LOCAL = runs.c.imported_utc.is_(None)

trials = Table(
    "trials",
    metadata,
    Column("id", String(255), primary_key=True),
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("treatment_id", String(128), nullable=False),
    *_columns(Integer, "block", "position"),
    Column("purpose", String(16), nullable=False),
    sa.ForeignKeyConstraint(
        ["run_id", "treatment_id"], ["treatments.run_id", "treatments.id"], ondelete="CASCADE"
    ),
    sa.Index(None, "run_id", "position"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trial_id", ForeignKey("trials.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    *_columns(String(128), "owner_host_id", "owner_boot_id"),
    *_columns(BigInteger, "owner_pid", "owner_started_ticks"),
    Column("started_utc", String(32), nullable=False),
    Column("ended_utc", String(32)),
    Column("outcome", String(16)),
    Column("failed_step", Text),
    Column("reason", Text),
    Column("log_tail", Text),
    Column("sha256", String(64)),
    sa.UniqueConstraint("trial_id", "number"),
    sqlite_autoincrement=True,  # an id is never reused, not even after a removal
)


# At most one attempt of a trial is open, and at most one has finished.
for _name, _condition in (("open", "outcome IS NULL"), ("finished", "outcome = 'finished'")):
    _where = sa.text(_condition)
    sa.Index(
        f"uq_attempts_{_name}",
        attempts.c.trial_id,
        unique=True,
        sqlite_where=_where,
        postgresql_where=_where,
    )


def _of_attempt() -> Column[int]:
    return Column("attempt_id", ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True)


steps = Table(
    "steps",
    metadata,
    _of_attempt(),
    Column("position", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    *_columns(Float, "started_s", "duration_s"),
    Column("outcome", String(16), nullable=False),
)

measurements = Table(
    "measurements",
    metadata,
    _of_attempt(),
    Column("role", String(64), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("position", Integer, nullable=False),
    Column("value", Float(53), nullable=False),
)

attempt_artefacts = Table(
    "attempt_artefacts",
    metadata,
    _of_attempt(),
    Column("position", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("role", String(64), nullable=False),
    Column("sha256", String(64), nullable=False, index=True),
    Column("size_bytes", BigInteger, nullable=False),
)

servers = Table(
    "servers",
    metadata,
    Column("sha256", String(64), primary_key=True),
    *_columns(Text, "name", "family", "version", "version_reported"),
    *_columns(JSON, "build", "host_variables"),
)

variable_sets = Table(
    "variable_sets",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("variables", JSON, nullable=False),
)

instances = Table(
    "instances",
    metadata,
    _of_attempt(),
    Column("role", String(64), primary_key=True),
    Column("position", Integer, nullable=False),
    Column("server_sha256", ForeignKey("servers.sha256"), nullable=False, index=True),
    Column("configuration", Text, nullable=False),
    Column("options", JSON, nullable=False),
    Column("variables_sha256", ForeignKey("variable_sets.sha256"), nullable=False, index=True),
    *_columns(JSON, "own_variables", "facts"),
)

history_series = Table(
    "history_series",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(64), nullable=False, unique=True),
    Column("experiment", Text, nullable=False),
    Column("digest", String(128), nullable=False),
    Column("factor", Text, nullable=False),
    *_columns(JSON, "reference", "candidate", "fixed_factors"),
    *_columns(Text, "metric", "title", "unit"),
    Column("direction", String(16), nullable=False),
    Column("margin", Float(53), nullable=False),
    Column("examined", Integer, nullable=False, server_default="0"),
    Column("origin", String(16), nullable=False),
)

history_states = Table(
    "history_states",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(64), nullable=False, unique=True),
    Column("host_id", String(128), nullable=False),
    Column("facts", JSON, nullable=False),
)

history_recordings = Table(
    "history_recordings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", String(128), nullable=False),
    Column("at_utc", String(32), nullable=False),
    Column("origin", String(16), nullable=False),
    sa.UniqueConstraint("run_id", "origin"),
    sqlite_autoincrement=True,  # ids follow the order of recording, even after a removal
)

history_points = Table(
    "history_points",
    metadata,
    Column("series_id", ForeignKey("history_series.id", ondelete="CASCADE"), primary_key=True),
    Column(
        "recording_id", ForeignKey("history_recordings.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("place", Integer, primary_key=True),
    Column("label", String(255), nullable=False),
    Column("level", JSON, nullable=False),
    Column("build", String(64)),
    Column("ratio", Float(53), nullable=False),
    Column("low", Float(53)),
    Column("high", Float(53)),
    Column("n_blocks", Integer, nullable=False),
    Column("log_sd", Float(53)),
    Column("state_id", ForeignKey("history_states.id"), nullable=False),
    sa.UniqueConstraint("label", "series_id"),
    sa.Index(None, "recording_id"),
    sqlite_with_rowid=False,
)

history_changes = Table(
    "history_changes",
    metadata,
    Column("id", String(64), primary_key=True),
    Column(
        "series_id", ForeignKey("history_series.id", ondelete="CASCADE"), nullable=False, index=True
    ),
    *_columns(String(255), "label", "earliest", "latest"),
    *_columns(Float(53), "ratio", "low", "high"),
    Column("n_points", Integer, nullable=False),
    Column("found_utc", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("remeasured", JSON, nullable=False),
    Column("note", Text),
)
