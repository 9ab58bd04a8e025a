"""Format analyses as reports: terminal, HTML, JSON, Markdown, CSV.

Verdicts, estimates and other statistics belong in ``analysis``.
"""
