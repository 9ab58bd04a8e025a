"""Add histories: ratios to a reference build, run after run, and their level changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    _series()
    _recordings()
    _points()
    _changes()


def _series() -> None:
    op.create_table(
        "history_series",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("experiment", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=128), nullable=False),
        sa.Column("factor", sa.Text(), nullable=False),
        sa.Column("reference", sa.JSON(), nullable=False),
        sa.Column("candidate", sa.JSON(), nullable=False),
        sa.Column("held", sa.JSON(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("direction", sa.String(length=16), nullable=False),
        sa.Column("margin", sa.Float(precision=53), nullable=False),
        sa.Column("examined", sa.Integer(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history_series")),
        sa.UniqueConstraint("key", name=op.f("uq_history_series_key")),
    )
    op.create_table(
        "history_states",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("host_id", sa.String(length=128), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history_states")),
        sa.UniqueConstraint("key", name=op.f("uq_history_states_key")),
    )


def _recordings() -> None:
    op.create_table(
        "history_recordings",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(length=128), nullable=False),
        sa.Column("at_utc", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history_recordings")),
        sa.UniqueConstraint("run_id", name=op.f("uq_history_recordings_run_id")),
        sqlite_autoincrement=True,
    )


def _points() -> None:
    op.create_table(
        "history_points",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("recording_id", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("label", sa.String(length=255), nullable=False),
        sa.Column("level", sa.JSON(), nullable=False),
        sa.Column("build", sa.String(length=64), nullable=True),
        sa.Column("ratio", sa.Float(precision=53), nullable=False),
        sa.Column("low", sa.Float(precision=53), nullable=True),
        sa.Column("high", sa.Float(precision=53), nullable=True),
        sa.Column("n_blocks", sa.Integer(), nullable=False),
        sa.Column("log_sd", sa.Float(precision=53), nullable=True),
        sa.Column("state_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["series_id"],
            ["history_series.id"],
            name=op.f("fk_history_points_history_series"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["recording_id"],
            ["history_recordings.id"],
            name=op.f("fk_history_points_history_recordings"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["state_id"], ["history_states.id"], name=op.f("fk_history_points_history_states")
        ),
        sa.PrimaryKeyConstraint(
            "series_id", "recording_id", "place", name=op.f("pk_history_points")
        ),
        sa.UniqueConstraint("label", "series_id", name=op.f("uq_history_points_label_series_id")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_history_points_recording_id"), "history_points", ["recording_id"], unique=False
    )


def _changes() -> None:
    op.create_table(
        "history_changes",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("label", sa.String(length=255), nullable=False),
        sa.Column("earliest", sa.String(length=255), nullable=False),
        sa.Column("latest", sa.String(length=255), nullable=False),
        sa.Column("ratio", sa.Float(precision=53), nullable=False),
        sa.Column("low", sa.Float(precision=53), nullable=False),
        sa.Column("high", sa.Float(precision=53), nullable=False),
        sa.Column("n_points", sa.Integer(), nullable=False),
        sa.Column("found_utc", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("remeasured", sa.JSON(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["series_id"],
            ["history_series.id"],
            name=op.f("fk_history_changes_history_series"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history_changes")),
    )
    op.create_index(
        op.f("ix_history_changes_series_id"), "history_changes", ["series_id"], unique=False
    )
