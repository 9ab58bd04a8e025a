"""Compare databases: did one get slower, by how much, and why."""

__version__ = "0.1.0"
