"""Follow ratios over versions: series, environments, change points and what confirms them.

A run's own comparisons belong to ``compare``, and the search for change points in any numbers to
``millrace.stats``.
"""
