"""Provide what the reports of several subjects share: figures as text, tables, axes, pages, JSON.

Nothing here knows a run, a history or an explanation.
"""
