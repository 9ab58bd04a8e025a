"""Set points of imported runs apart: their recordings, series, states and changes are their own."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_MARK = """
    UPDATE history_recordings SET origin = 'imported'
    WHERE run_id IN (SELECT id FROM runs WHERE imported_utc IS NOT NULL)
"""
_COPY_SERIES = """
    INSERT INTO history_series (
        key, experiment, digest, factor, reference, candidate, held, metric, title, unit,
        direction, margin, origin
    )
    SELECT
        'imported-' || key, experiment, digest, factor, reference, candidate, held, metric, title,
        unit, direction, margin, 'imported'
    FROM history_series
    WHERE id IN (
        SELECT series_id FROM history_points WHERE recording_id IN (
            SELECT id FROM history_recordings WHERE origin = 'imported'
        )
    )
    ORDER BY id
"""
_COPY_STATES = """
    INSERT INTO history_states (key, host_id, facts)
    SELECT 'imported-' || key, host_id, facts
    FROM history_states
    WHERE id IN (
        SELECT state_id FROM history_points WHERE recording_id IN (
            SELECT id FROM history_recordings WHERE origin = 'imported'
        )
    )
    ORDER BY id
"""
_MOVE_POINTS = """
    UPDATE history_points SET
        series_id = (
            SELECT own.id FROM history_series AS own JOIN history_series AS shared
            ON own.key = 'imported-' || shared.key WHERE shared.id = history_points.series_id
        ),
        state_id = (
            SELECT own.id FROM history_states AS own JOIN history_states AS shared
            ON own.key = 'imported-' || shared.key WHERE shared.id = history_points.state_id
        )
    WHERE recording_id IN (SELECT id FROM history_recordings WHERE origin = 'imported')
"""
# Of series that have only imported points.
_MOVE_CHANGES = """
    UPDATE history_changes SET
        id = 'imported-' || id,
        series_id = (
            SELECT own.id FROM history_series AS own JOIN history_series AS shared
            ON own.key = 'imported-' || shared.key WHERE shared.id = history_changes.series_id
        )
    WHERE series_id NOT IN (SELECT series_id FROM history_points) AND EXISTS (
        SELECT own.id FROM history_series AS own JOIN history_series AS shared
        ON own.key = 'imported-' || shared.key WHERE shared.id = history_changes.series_id
    )
"""
_REMOVE_SERIES = """
    DELETE FROM history_series
    WHERE id NOT IN (SELECT series_id FROM history_points) AND 'imported-' || key IN (
        SELECT key FROM history_series
    )
"""


def upgrade() -> None:
    op.add_column("history_series", _origin())
    with op.batch_alter_table(
        "history_recordings", table_kwargs={"sqlite_autoincrement": True}
    ) as recordings:
        recordings.add_column(_origin())
        recordings.drop_constraint("uq_history_recordings_run_id", type_="unique")
        recordings.create_unique_constraint(
            "uq_history_recordings_run_id_origin", ["run_id", "origin"]
        )
    for statement in (
        _MARK, _COPY_SERIES, _COPY_STATES, _MOVE_POINTS, _MOVE_CHANGES, _REMOVE_SERIES,
    ):  # fmt: skip
        op.execute(statement)


def _origin() -> sa.Column[str]:
    return sa.Column("origin", sa.String(length=16), nullable=False, server_default="local")
