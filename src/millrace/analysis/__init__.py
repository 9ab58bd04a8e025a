"""Turn stored trials into comparisons, verdicts and explanations.

All of it is pure: the same stored run gives the same results, number for number, without a clock, a
file or a server. General statistics are in ``millrace.stats``, words and pages in
``millrace.report``, and what decides which trials are measured next in ``millrace.campaign``.
"""
