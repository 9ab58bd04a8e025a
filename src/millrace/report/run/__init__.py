"""Render a run: its verdicts, tables, charts and notes, in every format.

``sentences`` and ``undecided`` hold the words of verdicts, which all formats share; a format only
places them. Verdicts themselves are made in ``millrace.analysis.compare``.
"""
