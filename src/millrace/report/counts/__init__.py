"""Reports of instruction counts."""
