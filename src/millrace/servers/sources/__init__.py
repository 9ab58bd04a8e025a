"""Fetch servers from their sources: coordinates, and one module a kind of source."""
