"""Provide what several reports share: axes, tables, pages, and numbers as text."""
