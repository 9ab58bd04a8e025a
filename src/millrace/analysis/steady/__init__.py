"""Steady states: whether trials are fit to be compared."""
