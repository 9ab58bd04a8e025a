"""Estimate levels, ratios, spread, power, rates and histograms from arrays.

This package is pure mathematics: it imports no other package of millrace, and has no I/O.

Modules write ``import scipy``, which loads ``scipy.stats`` only when it is first used: importing it
takes longer than most commands, which do not need it.
"""
