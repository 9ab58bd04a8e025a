"""Format analyses as reports: terminal, HTML, JSON, Markdown, CSV.

Each subject (a run, an explanation, a history, a calibration, a bisection, counts) has its own
modules, and all share ``common``. Verdicts, estimates and other statistics belong in ``analysis``.
"""
