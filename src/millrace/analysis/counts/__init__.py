"""Compare instruction counts: by statement, and by function."""
