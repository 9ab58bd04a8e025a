"""Rank the likely causes of a difference in time with their evidence, the likeliest first.

What is known of settings is in ``known/*.toml``, so that a new one needs no code. Breakdowns and
profiles, which are the evidence, are made in the package around this one.
"""
