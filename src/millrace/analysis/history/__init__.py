"""Histories: segments, change points and what confirms them."""
