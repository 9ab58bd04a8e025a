"""Create the first schema: runs, their trials, the results of each attempt, and histories."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    for statement in Path(__file__).with_suffix(".sql").read_text(encoding="utf-8").split(";\n"):
        op.get_bind().exec_driver_sql(statement)
