"""Format instants for records and documents: UTC, ISO 8601, with seconds."""

from datetime import UTC, datetime


def utc_now() -> str:
    """Return the current time."""
    return utc_text(datetime.now(UTC))


def utc_text(instant: datetime) -> str:
    """Return an instant, which has a time zone, as text."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
