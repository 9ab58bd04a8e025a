"""Compare databases: find out whether one got slower, by how much, and why."""

__version__ = "0.1.0"
