"""Explain where time goes, and why two treatments differ.

Observations of the server become breakdowns of an operation's time, costs, profiles, waits and
plans, and their differences. ``causes`` ranks what may have made these. Verdicts do not belong
here: an explanation never changes one.
"""
