"""Add the digests of runs and attempts; existing ones have none."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    for table in ("runs", "attempts"):
        op.add_column(table, sa.Column("sha256", sa.String(length=64), nullable=True))
