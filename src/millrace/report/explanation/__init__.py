"""Render explanations of where time goes, and why two treatments differ, in every format.

``sentences``, ``tables`` and ``caveats`` hold the words, which terminal, page and JSON share. The
causes and their ranking are in ``millrace.analysis.explain``.
"""
