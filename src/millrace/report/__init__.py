"""Render analyses: terminal, HTML, JSON, Markdown, CSV.

Reports say what an analysis found and compute no statistics. Each subject (a run, an explanation, a
history, a calibration, a bisection, counts) has its own modules, and all share ``common``.
"""
