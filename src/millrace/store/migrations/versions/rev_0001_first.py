"""The first schema: its stores were made with these tables, and nothing is older."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    pass
