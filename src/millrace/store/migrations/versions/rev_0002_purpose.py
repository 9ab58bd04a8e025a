"""Add `trials.purpose`; existing rows become `measure`."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    purpose = sa.Column("purpose", sa.String(length=16), nullable=False, server_default="measure")
    op.add_column("trials", purpose)
