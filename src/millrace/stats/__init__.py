"""Estimate levels, ratios, spread, power, rates and histograms from arrays.

This package is pure mathematics and imports nothing else of millrace.

Each module imports ``scipy`` alone, which loads its parts where they are first used: most commands
compute nothing, and ``scipy.stats`` takes longer to import than they take to run.
"""
