"""Create the first schema: runs, their trials, and the results of each attempt."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    _runs()
    _plan()
    _attempts()
    _yield()
    _instances()


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("digest", sa.String(length=128), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("scale", sa.Text(), nullable=False),
        sa.Column("created_utc", sa.String(length=32), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("blocks", sa.Integer(), nullable=False),
        sa.Column("margin", sa.Float(), nullable=False),
        sa.Column("host_id", sa.String(length=128), nullable=False),
        sa.Column("host_facts", sa.JSON(), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("experiment_text", sa.Text(), nullable=False),
        sa.Column("millrace_command", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    op.create_index(op.f("ix_runs_digest_host_id"), "runs", ["digest", "host_id"], unique=False)


def _plan() -> None:
    op.create_table(
        "treatments",
        sa.Column("run_id", sa.String(length=128), nullable=False),
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("levels", sa.JSON(), nullable=False),
        sa.Column("resolved", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_treatments_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "id", name=op.f("pk_treatments")),
    )
    op.create_table(
        "trials",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("run_id", sa.String(length=128), nullable=False),
        sa.Column("treatment_id", sa.String(length=128), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "treatment_id"],
            ["treatments.run_id", "treatments.id"],
            name=op.f("fk_trials_treatments"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_trials_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trials")),
    )
    op.create_index(
        op.f("ix_trials_run_id_position"), "trials", ["run_id", "position"], unique=False
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.String(length=255), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("owner_host_id", sa.String(length=128), nullable=False),
        sa.Column("owner_boot_id", sa.String(length=128), nullable=False),
        sa.Column("owner_pid", sa.BigInteger(), nullable=False),
        sa.Column("owner_started_ticks", sa.BigInteger(), nullable=False),
        sa.Column("started_utc", sa.String(length=32), nullable=False),
        sa.Column("ended_utc", sa.String(length=32), nullable=True),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("failed_step", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("log_tail", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["trial_id"], ["trials.id"], name=op.f("fk_attempts_trials"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("trial_id", "number", name=op.f("uq_attempts_trial_id_number")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_attempts_finished",
        "attempts",
        ["trial_id"],
        unique=True,
        sqlite_where=sa.text("outcome = 'finished'"),
        postgresql_where=sa.text("outcome = 'finished'"),
    )
    op.create_index(
        "uq_attempts_open",
        "attempts",
        ["trial_id"],
        unique=True,
        sqlite_where=sa.text("outcome IS NULL"),
        postgresql_where=sa.text("outcome IS NULL"),
    )


def _yield() -> None:
    op.create_table(
        "steps",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("started_s", sa.Float(), nullable=False),
        sa.Column("duration_s", sa.Float(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_steps_attempts"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("attempt_id", "position", name=op.f("pk_steps")),
    )
    op.create_table(
        "measurements",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("value", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempts.id"],
            name=op.f("fk_measurements_attempts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("attempt_id", "role", "name", name=op.f("pk_measurements")),
    )
    op.create_table(
        "attempt_artefacts",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("role", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempts.id"],
            name=op.f("fk_attempt_artefacts_attempts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("attempt_id", "position", name=op.f("pk_attempt_artefacts")),
    )
    op.create_index(
        op.f("ix_attempt_artefacts_sha256"), "attempt_artefacts", ["sha256"], unique=False
    )


def _instances() -> None:
    op.create_table(
        "servers",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("version_reported", sa.Text(), nullable=False),
        sa.Column("build", sa.JSON(), nullable=False),
        sa.Column("host_variables", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_servers")),
    )
    op.create_table(
        "variable_sets",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("variables", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_variable_sets")),
    )
    op.create_table(
        "instances",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("server_sha256", sa.String(length=64), nullable=False),
        sa.Column("configuration", sa.Text(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("variables_sha256", sa.String(length=64), nullable=False),
        sa.Column("own_variables", sa.JSON(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_instances_attempts"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["server_sha256"], ["servers.sha256"], name=op.f("fk_instances_servers")
        ),
        sa.ForeignKeyConstraint(
            ["variables_sha256"], ["variable_sets.sha256"], name=op.f("fk_instances_variable_sets")
        ),
        sa.PrimaryKeyConstraint("attempt_id", "role", name=op.f("pk_instances")),
    )
    op.create_index(
        op.f("ix_instances_server_sha256"), "instances", ["server_sha256"], unique=False
    )
    op.create_index(
        op.f("ix_instances_variables_sha256"), "instances", ["variables_sha256"], unique=False
    )
