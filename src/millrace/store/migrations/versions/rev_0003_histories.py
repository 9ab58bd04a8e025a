"""Add histories: ratios to a reference build, run after run, and their level changes."""

from alembic import op
from sqlalchemy import JSON, Column, Float, ForeignKey, Integer, String, Text, UniqueConstraint

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "history_series",
        Column("id", Integer, primary_key=True),
        Column("key", String(64), nullable=False, unique=True),
        Column("experiment", Text, nullable=False),
        Column("digest", String(128), nullable=False),
        Column("factor", Text, nullable=False),
        Column("reference", JSON, nullable=False),
        Column("candidate", JSON, nullable=False),
        Column("held", JSON, nullable=False),
        Column("metric", Text, nullable=False),
        Column("title", Text, nullable=False),
        Column("unit", Text, nullable=False),
        Column("direction", String(16), nullable=False),
        Column("margin", Float(53), nullable=False),
        Column("examined", Integer, nullable=False, server_default="0"),
    )
    op.create_table(
        "history_states",
        Column("id", Integer, primary_key=True),
        Column("key", String(64), nullable=False, unique=True),
        Column("host_id", String(128), nullable=False),
        Column("facts", JSON, nullable=False),
    )
    op.create_table(
        "history_recordings",
        Column("id", Integer, primary_key=True),
        Column("run_id", String(128), nullable=False, unique=True),
        Column("at_utc", String(32), nullable=False),
        sqlite_autoincrement=True,
    )
    of_recording = ForeignKey("history_recordings.id", ondelete="CASCADE")
    op.create_table(
        "history_points",
        Column("series_id", Integer, _of_series(), primary_key=True),
        Column("recording_id", Integer, of_recording, primary_key=True, index=True),
        Column("place", Integer, primary_key=True),
        Column("label", String(255), nullable=False),
        Column("level", JSON, nullable=False),
        Column("build", String(64)),
        Column("ratio", Float(53), nullable=False),
        Column("low", Float(53)),
        Column("high", Float(53)),
        Column("n_blocks", Integer, nullable=False),
        Column("log_sd", Float(53)),
        Column("state_id", Integer, ForeignKey("history_states.id"), nullable=False),
        UniqueConstraint("label", "series_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "history_changes",
        Column("id", String(64), primary_key=True),
        Column("series_id", Integer, _of_series(), nullable=False, index=True),
        Column("label", String(255), nullable=False),
        Column("earliest", String(255), nullable=False),
        Column("latest", String(255), nullable=False),
        Column("ratio", Float(53), nullable=False),
        Column("low", Float(53), nullable=False),
        Column("high", Float(53), nullable=False),
        Column("n_points", Integer, nullable=False),
        Column("found_utc", String(32), nullable=False),
        Column("state", String(16), nullable=False),
        Column("reason", Text, nullable=False),
        Column("remeasured", JSON, nullable=False),
        Column("note", Text),
    )


def _of_series() -> ForeignKey:
    return ForeignKey("history_series.id", ondelete="CASCADE")
