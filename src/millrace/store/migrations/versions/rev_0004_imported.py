"""Mark runs that come from a file; existing runs count as measured here."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("runs", sa.Column("imported_utc", sa.String(length=32), nullable=True))
