"""Render numbers that were measured elsewhere, as paired comparisons and as series.

Reading such numbers is done by ``millrace.importers``, and stored runs have ``run``.
"""
