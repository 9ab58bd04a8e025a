"""Create the first schema: runs, their trials, the results of each attempt, and histories."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import JSON, BigInteger, Column, Float, ForeignKey, Integer, String, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    _plan()
    _attempts()
    _results()
    _instances()
    _histories()
    _points()


def _plan() -> None:
    op.create_table(
        "runs",
        Column("id", String(128), primary_key=True),
        Column("digest", String(128), nullable=False),
        Column("name", Text, nullable=False),
        Column("title", Text, nullable=False),
        Column("scale", Text, nullable=False),
        Column("created_utc", String(32), nullable=False),
        Column("seed", BigInteger, nullable=False),
        Column("blocks", Integer, nullable=False),
        Column("margin", Float, nullable=False),
        Column("host_id", String(128), nullable=False),
        Column("host_facts", JSON, nullable=False),
        Column("versions", JSON, nullable=False),
        Column("spec", JSON, nullable=False),
        Column("experiment_text", Text, nullable=False),
        Column("millrace_command", Text, nullable=False),
        Column("imported_utc", String(32)),
        Column("sha256", String(64)),
    )
    op.create_index(op.f("ix_runs_digest_host_id"), "runs", ["digest", "host_id"])
    of_run = ForeignKey("runs.id", ondelete="CASCADE")
    op.create_table(
        "treatments",
        Column("run_id", String(128), of_run, primary_key=True),
        Column("id", String(128), primary_key=True),
        Column("position", Integer, nullable=False),
        Column("levels", JSON, nullable=False),
        Column("resolved", JSON, nullable=False),
    )
    op.create_table(
        "trials",
        Column("id", String(255), primary_key=True),
        Column("run_id", String(128), ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        Column("treatment_id", String(128), nullable=False),
        Column("block", Integer, nullable=False),
        Column("position", Integer, nullable=False),
        Column("purpose", String(16), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "treatment_id"], ["treatments.run_id", "treatments.id"], ondelete="CASCADE"
        ),
    )
    op.create_index(op.f("ix_trials_run_id_position"), "trials", ["run_id", "position"])


def _attempts() -> None:
    op.create_table(
        "attempts",
        Column("id", Integer, primary_key=True),
        Column(
            "trial_id", String(255), ForeignKey("trials.id", ondelete="CASCADE"), nullable=False
        ),
        Column("number", Integer, nullable=False),
        Column("owner_host_id", String(128), nullable=False),
        Column("owner_boot_id", String(128), nullable=False),
        Column("owner_pid", BigInteger, nullable=False),
        Column("owner_started_ticks", BigInteger, nullable=False),
        Column("started_utc", String(32), nullable=False),
        Column("ended_utc", String(32)),
        Column("outcome", String(16)),
        Column("failed_step", Text),
        Column("reason", Text),
        Column("log_tail", Text),
        Column("sha256", String(64)),
        sa.UniqueConstraint("trial_id", "number"),
        sqlite_autoincrement=True,
    )
    for name, condition in (("finished", "outcome = 'finished'"), ("open", "outcome IS NULL")):
        where = sa.text(condition)
        op.create_index(
            f"uq_attempts_{name}",
            "attempts",
            ["trial_id"],
            unique=True,
            sqlite_where=where,
            postgresql_where=where,
        )


def _attempt_id() -> Column[int]:
    of_attempt = ForeignKey("attempts.id", ondelete="CASCADE")
    return Column("attempt_id", Integer, of_attempt, primary_key=True)


def _results() -> None:
    op.create_table(
        "steps",
        _attempt_id(),
        Column("position", Integer, primary_key=True),
        Column("name", Text, nullable=False),
        Column("started_s", Float, nullable=False),
        Column("duration_s", Float, nullable=False),
        Column("outcome", String(16), nullable=False),
    )
    op.create_table(
        "measurements",
        _attempt_id(),
        Column("role", String(64), primary_key=True),
        Column("name", String(128), primary_key=True),
        Column("position", Integer, nullable=False),
        Column("value", Float(53), nullable=False),
    )
    op.create_table(
        "attempt_artefacts",
        _attempt_id(),
        Column("position", Integer, primary_key=True),
        Column("kind", Text, nullable=False),
        Column("role", String(64), nullable=False),
        Column("sha256", String(64), nullable=False, index=True),
        Column("size_bytes", BigInteger, nullable=False),
    )


def _instances() -> None:
    op.create_table(
        "servers",
        Column("sha256", String(64), primary_key=True),
        Column("name", Text, nullable=False),
        Column("family", Text, nullable=False),
        Column("version", Text, nullable=False),
        Column("version_reported", Text, nullable=False),
        Column("build", JSON, nullable=False),
        Column("host_variables", JSON, nullable=False),
    )
    op.create_table(
        "variable_sets",
        Column("sha256", String(64), primary_key=True),
        Column("variables", JSON, nullable=False),
    )
    of_server, of_set = ForeignKey("servers.sha256"), ForeignKey("variable_sets.sha256")
    op.create_table(
        "instances",
        _attempt_id(),
        Column("role", String(64), primary_key=True),
        Column("position", Integer, nullable=False),
        Column("server_sha256", String(64), of_server, nullable=False, index=True),
        Column("configuration", Text, nullable=False),
        Column("options", JSON, nullable=False),
        Column("variables_sha256", String(64), of_set, nullable=False, index=True),
        Column("own_variables", JSON, nullable=False),
        Column("facts", JSON, nullable=False),
    )


def _histories() -> None:
    op.create_table(
        "history_series",
        Column("id", Integer, primary_key=True),
        Column("key", String(64), nullable=False, unique=True),
        Column("experiment", Text, nullable=False),
        Column("digest", String(128), nullable=False),
        Column("factor", Text, nullable=False),
        Column("reference", JSON, nullable=False),
        Column("candidate", JSON, nullable=False),
        Column("fixed_factors", JSON, nullable=False),
        Column("metric", Text, nullable=False),
        Column("title", Text, nullable=False),
        Column("unit", Text, nullable=False),
        Column("direction", String(16), nullable=False),
        Column("margin", Float(53), nullable=False),
        Column("examined", Integer, nullable=False, server_default="0"),
        Column("origin", String(16), nullable=False),
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
        Column("run_id", String(128), nullable=False),
        Column("at_utc", String(32), nullable=False),
        Column("origin", String(16), nullable=False),
        sa.UniqueConstraint("run_id", "origin"),
        sqlite_autoincrement=True,
    )


def _points() -> None:
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
        sa.UniqueConstraint("label", "series_id"),
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
