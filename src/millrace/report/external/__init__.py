"""Numbers that were measured elsewhere, as comparisons and as series."""
