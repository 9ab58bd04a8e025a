"""Likely causes of a difference in time with their evidence, the likeliest first."""
